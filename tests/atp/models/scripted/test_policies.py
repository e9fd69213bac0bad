"""What scripted models decide to say."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atp.models import ModelRef
from atp.models.scripted import Script, policy_for
from atp.models.scripted.idiom import idiom_named
from atp.models.scripted.policies import DONE_SENTENCE, NOOP_SENTENCE, policy_from
from atp.models.scripted.steps import Message, Refusal, RequestView, Step, ToolOffer, counted_usage
from atp.protocol.errors import InvalidInput, UnknownName
from atp.protocol.task import Expected, ExpectedAction, TaskInput

ACTIONS = (
    ExpectedAction(name="look", arguments={"at": "sky"}),
    ExpectedAction(name="wait", arguments={"hours": 2.0}),
)
TASK = TaskInput(task_id="t", expected=Expected(actions=ACTIONS, outputs=("blue", "42")))
TOOLS = (ToolOffer("look"), ToolOffer("wait"))
ASKED = Message("user", "what colour?")


def view(*messages: Message, tools: tuple[ToolOffer, ...] = TOOLS) -> RequestView:
    return RequestView("m", (ASKED, *messages), tools)


def after(*steps: Step) -> tuple[Message, ...]:
    """The messages a harness adds for steps whose calls it made."""
    return tuple(
        message
        for step in steps
        for message in (
            Message("assistant", step.text or "", step.tool_calls),
            *(Message("tool", "done", tool_call_id=call.id) for call in step.tool_calls),
        )
    )


def oracle(task: TaskInput = TASK, session: str = "run-1") -> Any:
    return policy_from(policy_for(ModelRef.parse("scripted/oracle"), task), session)


def script(text: str, task_id: str = "t") -> Any:
    data = {
        "kind": "script",
        "script": Script.from_yaml(text, "s.yaml").model_dump(mode="json"),
        "task_id": task_id,
    }
    return policy_from(data, "run-1")


def test_the_oracle_makes_the_expected_calls_in_order_and_says_the_expected_outputs() -> None:
    policy, steps = oracle(), list[Step]()
    for _ in range(3):
        steps.append(policy.step(view(*after(*steps))))
    assert [(call.name, call.arguments) for step in steps for call in step.tool_calls] == [
        ("look", '{"at":"sky"}'),
        ("wait", '{"hours":2.0}'),
    ]
    assert steps[-1].text == "blue\n42"


@given(st.integers(0, 2))
def test_the_oracle_gives_a_retry_the_same_step(done: int) -> None:
    policy, steps = oracle(), list[Step]()
    for _ in range(done):
        steps.append(policy.step(view(*after(*steps))))
    asked = view(*after(*steps))
    assert policy.step(asked) == policy.step(asked)


def test_the_oracle_counts_a_repeated_result_once() -> None:
    first = oracle().step(view())
    messages = (*after(first), after(first)[-1])
    assert oracle().step(view(*messages)).tool_calls[0].name == "wait"


def test_the_oracle_says_its_outputs_again_when_the_user_speaks_on() -> None:
    policy, steps = oracle(), list[Step]()
    for _ in range(3):
        steps.append(policy.step(view(*after(*steps))))
    assert policy.step(view(*after(*steps), Message("user", "and?"))).text == "blue\n42"


def test_the_oracle_answers_at_once_where_no_tool_is_allowed() -> None:
    assert oracle().step(view(tools=())).text == "blue\n42"


def test_the_oracle_refuses_when_its_tool_is_not_among_those_offered() -> None:
    with pytest.raises(Refusal, match="'look'.*offers wait") as caught:
        oracle().step(view(tools=(ToolOffer("wait"),)))
    assert (caught.value.status, caught.value.code) == (400, "tool_not_offered")


def test_the_oracle_has_a_last_word_where_none_is_expected() -> None:
    task = TaskInput(task_id="t", expected=Expected())
    assert oracle(task).step(view()).text == DONE_SENTENCE


def test_call_ids_differ_between_sessions() -> None:
    ids = {oracle(session=name).step(view()).tool_calls[0].id for name in ("run-1", "run-2")}
    assert len(ids) == 2


def test_a_task_without_gold_is_refused_for_the_oracle() -> None:
    with pytest.raises(InvalidInput, match="'bare'.*no `expected`"):
        policy_for(ModelRef.parse("scripted/oracle"), TaskInput(task_id="bare"))


def test_what_the_grader_needs_besides_is_not_given_to_the_oracle() -> None:
    task = TaskInput(task_id="t", expected=Expected(outputs=("x",), verifier={"tests": "hidden"}))
    assert "hidden" not in str(policy_for(ModelRef.parse("scripted/oracle"), task))


@given(st.lists(st.text()))
def test_noop_says_the_same_whatever_it_is_asked(texts: list[str]) -> None:
    policy = policy_from({"kind": "noop"}, "run-1")
    assert policy.step(view(*(Message("user", text) for text in texts))) == Step(text=NOOP_SENTENCE)


def test_the_noop_sentence_has_nothing_an_extraction_could_take_for_an_answer() -> None:
    words = re.findall(r"\w+", NOOP_SENTENCE.lower())
    assert not re.search(r"\d", NOOP_SENTENCE)
    assert all(len(word) > 1 for word in words)
    assert not {"yes", "no", "true", "false", "none", "nothing"} & set(words)


def test_a_script_goes_on_by_the_replies_the_request_holds() -> None:
    policy = script("steps: [{text: one}, {tool_calls: [{name: look}, {name: wait}]}, {text: three}]")
    first = policy.step(view())
    second = policy.step(view(*after(first)))
    third = policy.step(view(*after(first, second)))
    assert (first.text, third.text) == ("one", "three")
    assert [(call.name, call.arguments) for call in second.tool_calls] == [("look", "{}"), ("wait", "{}")]
    assert len({call.id for call in second.tool_calls}) == 2


def test_a_script_may_say_malformed_arguments() -> None:
    policy = script('steps: [{tool_calls: [{name: look, arguments_text: \'{"at": "sk\', id: c9}]}]')
    call = policy.step(view()).tool_calls[0]
    assert (call.id, call.arguments) == ("c9", '{"at": "sk')


def test_past_its_last_step_a_script_refuses() -> None:
    policy = script("steps: [{text: one}]")
    with pytest.raises(Refusal) as caught:
        policy.step(view(*after(policy.step(view()))))
    assert (caught.value.status, caught.value.code) == (400, "script_exhausted")


def test_an_unknown_policy_is_refused_without_showing_gold() -> None:
    with pytest.raises(InvalidInput) as caught:
        policy_from({"kind": "oracle", "expected": {"outputs": "the gold"}}, "run-1")
    assert "expected.outputs" in caught.value.message
    assert "the gold" not in caught.value.message
    with pytest.raises(InvalidInput):
        policy_from({"kind": "prophet"}, "run-1")


def test_an_unknown_idiom_names_the_nearest() -> None:
    with pytest.raises(UnknownName, match="nearest: plain"):
        idiom_named("plane")


def test_simulated_tokens_are_a_quarter_of_the_characters_rounded_up() -> None:
    asked = RequestView("m", (Message("user", "x" * 9),), (ToolOffer("look", "d" * 3, {}),))
    # 9 + 4 + 3 + len("{}") = 18 characters asked; 6 said, and 5 of reasoning.
    usage = counted_usage(Step(text="y" * 6, reasoning="z" * 5), asked)
    assert (usage.input_tokens, usage.output_tokens, usage.reasoning_tokens) == (5, 4, 2)


def test_simulated_tokens_are_never_zero() -> None:
    usage = counted_usage(Step(text=""), RequestView("m", (Message("user"),)))
    assert (usage.input_tokens, usage.output_tokens) == (1, 1)

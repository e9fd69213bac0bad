"""The idiom of smolagents: what its memory says, in its own rendering, is heard as it happened."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atp.models.scripted.idiom import idiom_named
from atp.models.scripted.policies import policy_from
from atp.models.scripted.steps import FinishReason, Message, RequestView, Step, StepCall, ToolOffer

IDIOM = idiom_named("final_answer")
TOOLS = (ToolOffer("look"), ToolOffer("final_answer"))
LOOK = {"at": "sky", "deep": None, "far": [1, 2.5, True]}


def request(*steps: Any, tools: tuple[ToolOffer, ...] = TOOLS) -> RequestView:
    """A request as smolagents makes it of memory steps."""
    from smolagents.memory import AgentMemory
    from smolagents.models import get_clean_message_list, tool_role_conversions

    memory = AgentMemory("You are an expert.")
    memory.steps = list(steps)
    messages = [*memory.system_prompt.to_messages(), *(m for step in steps for m in step.to_messages())]
    cleaned = get_clean_message_list(messages, tool_role_conversions)
    return RequestView(
        "m",
        tuple(Message(item["role"], "".join(part["text"] for part in item["content"])) for item in cleaned),
        tools,
    )


def task(text: str) -> Any:
    from smolagents.memory import TaskStep

    return TaskStep(task=text)


def action(
    *calls: tuple[str, str, Any],
    said: str | None = None,
    observed: str | None = None,
    error: str | None = None,
) -> Any:
    from smolagents.memory import ActionStep, ToolCall
    from smolagents.monitoring import AgentLogger, LogLevel, Timing
    from smolagents.utils import AgentError

    return ActionStep(
        step_number=1,
        timing=Timing(0.0),
        model_output=said,
        tool_calls=[ToolCall(name, arguments, call_id) for call_id, name, arguments in calls] or None,
        observations=observed,
        error=AgentError(error, AgentLogger(LogLevel.OFF)) if error else None,
    )


def answer(text: str) -> Any:
    return action(("call_f", "final_answer", {"answer": text}), observed=text)


def heard(*steps: Any) -> list[Message]:
    return list(IDIOM.hear(request(*steps)).messages[1:])


def test_calls_and_their_result_are_heard_as_such() -> None:
    assert heard(task("Look."), action(("call_1", "look", LOOK), observed="blue")) == [
        Message("user", "Look."),
        Message(
            "assistant",
            tool_calls=(StepCall("call_1", "look", '{"at":"sky","deep":null,"far":[1,2.5,true]}'),),
        ),
        Message("tool", "blue", tool_call_id="call_1"),
    ]


def test_each_of_parallel_calls_is_answered_with_what_all_of_them_gave() -> None:
    step = action(("call_1", "look", {}), ("call_2", "look", {}), said="Both.", observed="blue\nred")
    _, reply, *results = heard(task("Look."), step)
    assert (reply.text, [call.id for call in reply.tool_calls]) == ("Both.", ["call_1", "call_2"])
    assert results == [Message("tool", "blue\nred", tool_call_id=f"call_{n}") for n in (1, 2)]


def test_an_empty_result_is_heard_as_one() -> None:
    _, _, result = heard(task("Look."), action(("call_1", "look", {}), observed=""))
    assert result == Message("tool", "", tool_call_id="call_1")


@given(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1).map(str.strip).filter(bool),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1).map(str.strip).filter(bool),
)
def test_an_answer_is_heard_as_text_and_the_next_line_after_it(said: str, line: str) -> None:
    assert heard(task("Hello."), answer(said), task(line)) == [
        Message("user", "Hello."),
        Message("assistant", said),
        Message("user", line),
    ]


def test_arguments_that_were_no_object_are_heard_as_they_were_written() -> None:
    _, reply, _ = heard(task("Look."), action(("call_1", "look", '{"at": "s'), observed="blue"))
    assert reply.tool_calls == (StepCall("call_1", "look", '{"at": "s'),)


def test_replies_whose_calls_were_refused_count_as_replies_with_a_result() -> None:
    messages = heard(
        task("Look."),
        action(error="no such thing"),
        action(("call_2", "look", {}), observed="blue"),
        action(error="twice"),
    )
    assert [(m.role, m.text, m.tool_call_id) for m in messages] == [
        ("user", "Look.", None),
        ("assistant", "", None),
        ("tool", "no such thing", "unseen_1"),
        ("assistant", "", None),
        ("tool", "blue", "call_2"),
        ("assistant", "", None),
        ("tool", "twice", "unseen_2"),
    ]


def test_text_that_was_no_call_and_what_was_said_of_it_are_one_reply() -> None:
    messages = heard(task("Look."), action(said="Blue!", error="no call"), task("Well?"))
    assert messages == [
        Message("user", "Look."),
        Message("assistant", "Blue!"),
        Message("user", "no call"),
        Message("user", "Well?"),
    ]


def test_the_harnesss_own_tool_is_not_offered_to_the_policy() -> None:
    assert IDIOM.hear(request(task("Look."))).tools == (ToolOffer("look"),)


def test_text_is_said_by_the_tool_with_an_id_of_its_own() -> None:
    first = IDIOM.say(Step(text="bläu"), request(task("Look.")))
    assert (first.text, [(c.name, c.arguments) for c in first.tool_calls]) == (
        None,
        [("final_answer", '{"answer":"bläu"}')],
    )
    second = IDIOM.say(Step(text="red"), request(task("Look."), answer("blue"), task("And now?")))
    assert second.tool_calls[0].id != first.tool_calls[0].id


@pytest.mark.parametrize(
    ("stated", "goes_out"),
    [
        (None, FinishReason.TOOL_CALLS),
        (FinishReason.STOP, FinishReason.TOOL_CALLS),
        (FinishReason.LENGTH, FinishReason.LENGTH),
    ],
)
def test_the_finish_reason_fits_the_call(stated: FinishReason | None, goes_out: FinishReason) -> None:
    assert IDIOM.say(Step(text="blue", finish_reason=stated), request(task("Look."))).finish is goes_out


@pytest.mark.parametrize(
    ("step", "tools"),
    [
        (Step(text="blue"), ()),
        (Step(text="Let me see.", tool_calls=(StepCall("call_1", "look", "{}"),)), TOOLS),
        (Step(reasoning="Hm."), TOOLS),
    ],
)
def test_anything_else_is_said_as_it_is(step: Step, tools: tuple[ToolOffer, ...]) -> None:
    assert IDIOM.say(step, request(task("Look."), tools=tools)) is step


def test_the_oracle_goes_through_its_calls_and_on_after_a_refused_one() -> None:
    actions = [{"name": "look", "arguments": {"at": at}} for at in ("sky", "sea")]
    policy = policy_from({"kind": "oracle", "expected": {"actions": actions, "outputs": ["blue"]}}, "run-1")
    seen = (
        request(task("Look.")),
        request(task("Look."), action(("call_1", "look", {"at": "sky"}), observed="blue")),
        request(
            task("Look."),
            action(("call_1", "look", {"at": "sky"}), observed="blue"),
            action(error="Argument at is not there"),
        ),
    )
    steps = [IDIOM.say(policy.step(IDIOM.hear(view)), view) for view in seen]
    assert [step.tool_calls[0].arguments for step in steps] == [
        '{"at":"sky"}',
        '{"at":"sea"}',
        '{"answer":"blue"}',
    ]


def test_an_answer_that_was_said_by_its_tool_is_text_in_the_plain_form() -> None:
    call = StepCall("c1", "final_answer", '{"answer": "blue"}')
    other = StepCall("c2", "look", "{}")
    assert IDIOM.plain(Step(text="So:", tool_calls=(other, call))) == Step(
        text="So:\nblue", tool_calls=(other,)
    )
    assert IDIOM.plain(Step(tool_calls=(other,))) == Step(tool_calls=(other,))

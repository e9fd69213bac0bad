"""A stored run as a policy: the same request gets the same reply, and any other is told where it differs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atp.models.scripted.policies import policy_from, replay_policy
from atp.models.scripted.recording import (
    RecordedCall,
    RecordedMessage,
    RecordedTool,
    RecordedTurn,
    Recording,
)
from atp.models.scripted.replay import Replay
from atp.models.scripted.steps import FinishReason, Message, Refusal, RequestView, Step, StepCall, ToolOffer
from atp.protocol.errors import InvalidInput
from atp.protocol.trace import Usage

CALL = RecordedCall(id="c1", name="look", arguments='{ "at":"sky", "far": 2.0}')
USAGE = Usage(input_tokens=9, output_tokens=4, reasoning_tokens=1)
RECORDING = Recording(
    run_id="run-1",
    messages=(
        RecordedMessage(role="system", text="Be brief."),
        RecordedMessage(role="user", text="What colour is the sky?"),
        RecordedMessage(
            role="assistant",
            tool_calls=(RecordedCall(id="c1", name="look", arguments='{"at": "sky", "far": 2.0}'),),
        ),
        RecordedMessage(role="tool", text="it is blue", tool_call_id="c1"),
    ),
    tools=((RecordedTool(name="look", description="Look.", parameters={"type": "object"}),),),
    turns=(
        RecordedTurn(messages=(0, 1), tools=0, reasoning="Hm.", tool_calls=(CALL,), usage=USAGE),
        RecordedTurn(messages=(0, 1, 2, 3), tools=0, text="blue", finish_reason=FinishReason.LENGTH),
    ),
)
ASKED = (Message("system", "Be brief."), Message("user", "What colour is the sky?"))
MADE = StepCall("c1", "look", '{"far": 2.0, "at": "sky"}')
CALLED = (*ASKED, Message("assistant", "", (MADE,)), Message("tool", "it is blue", tool_call_id="c1"))
OFFERED = (ToolOffer("look", "Look.", {"type": "object"}),)


def view(*messages: Message, tools: tuple[ToolOffer, ...] = OFFERED) -> RequestView:
    return RequestView("m", messages, tools)


def refused(*messages: Message, tools: tuple[ToolOffer, ...] = OFFERED) -> str:
    with pytest.raises(Refusal) as caught:
        Replay(RECORDING).step(view(*messages, tools=tools))
    assert (caught.value.status, caught.value.code) == (400, "replay_diverged")
    return caught.value.message.removeprefix("replay of run-1 ends at ")


def test_a_reply_is_repeated_whole_and_to_the_character() -> None:
    policy = policy_from(replay_policy(RECORDING), "session")
    call = StepCall("c1", "look", '{ "at":"sky", "far": 2.0}')
    assert policy.step(view(*ASKED)) == Step(reasoning="Hm.", tool_calls=(call,), usage=USAGE)
    assert policy.step(view(*CALLED)) == Step(text="blue", usage=Usage(), finish_reason=FinishReason.LENGTH)


@given(st.permutations([ASKED, CALLED, ASKED, CALLED]))
def test_the_same_request_gets_the_same_reply_in_whatever_order(
    requests: list[tuple[Message, ...]],
) -> None:
    policy = Replay(RECORDING)
    for messages in requests:
        assert policy.step(view(*messages)).text == ("blue" if len(messages) == 4 else None)


def test_another_text_is_named_with_its_place_and_both_texts() -> None:
    other = (ASKED[0], Message("user", "What colour is the sea?"))
    assert refused(*other) == (
        "turn 1: message 2 (user) differs at character 21: stored …'our is the sky?', came …'our is the sea?'"
    )


def test_long_texts_are_shown_around_their_difference() -> None:
    message = refused(ASKED[0], Message("user", "What colour is the sk" + "i" * 1000))
    assert len(message) < 250


def test_another_result_of_a_tool_is_named_with_its_call() -> None:
    other = (*CALLED[:3], Message("tool", "it is grey", tool_call_id="c1"))
    assert refused(*other) == (
        "turn 2: message 4 (result of call c1) differs at character 7: stored 'it is blue', came 'it is grey'"
    )


def test_another_call_and_other_arguments_are_named() -> None:
    renamed, result = replace(MADE, id="c2"), CALLED[3]
    assert "call c1 (look) came as c2 (look)" in refused(
        *ASKED, Message("assistant", "", (renamed,)), replace(result, tool_call_id="c2")
    )
    nearer = replace(MADE, arguments='{"at": "sea", "far": 2.0}')
    assert "arguments of call c1 differ at character 10" in refused(
        *ASKED, Message("assistant", "", (nearer,)), result
    )
    assert "1 tool calls were stored, 0 came" in refused(*ASKED, Message("assistant"), result)


def test_2_and_2_point_0_are_not_the_same_arguments() -> None:
    whole = replace(MADE, arguments='{"at": "sky", "far": 2}')
    assert "arguments of call c1 differ" in refused(*ASKED, Message("assistant", "", (whole,)), CALLED[3])


def test_messages_that_are_missing_or_besides_are_named() -> None:
    assert refused(ASKED[0]) == "turn 1: message 2 (user) did not come; stored: 'What colour is the sky?'"
    said, more = Message("assistant", "blue"), Message("user", "And at night?")
    assert refused(*CALLED, said, more) == (
        "turn 2: the run asked no more, and message 6 (user) came besides: 'And at night?'"
    )
    assert "message 1 (system) came as a message of role user" in refused(ASKED[1])


def test_a_last_reply_that_the_harness_changed_is_named() -> None:
    changed = refused(*CALLED, Message("assistant", "green"), Message("user", "And at night?"))
    assert "turn 2: message 5 (assistant) differs at character 1: stored 'blue', came 'green'" in changed


@pytest.mark.parametrize(
    ("tools", "says"),
    [
        ((), "tool list: 'look' is not offered any more"),
        ((*OFFERED, ToolOffer("wait")), "tool list: 'wait' is not offered in the stored run"),
        (
            (ToolOffer("look", "Gaze.", {"type": "object"}),),
            "tool list: description of 'look' differs at character 1: stored 'Look.', came 'Gaze.'",
        ),
        (
            (ToolOffer("look", "Look.", {"type": "array"}),),
            "tool list: schema of 'look' differs at character 10",
        ),
    ],
)
def test_another_list_of_tools_is_named(tools: tuple[ToolOffer, ...], says: str) -> None:
    assert says in refused(*ASKED, tools=tools)


def test_a_run_that_was_answered_differently_on_the_same_request_cannot_be_repeated() -> None:
    twice = RECORDING.model_copy(
        update={"turns": (*RECORDING.turns, RecordedTurn(messages=(0, 1), tools=0, text="grey"))}
    )
    with pytest.raises(InvalidInput, match="requests of turns 1 and 3 are the same and their replies differ"):
        replay_policy(twice)

"""Calls as a block of Python: what is said in it is heard as it happened."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atp.models.scripted.idiom import idiom_named
from atp.models.scripted.steps import (
    FinishReason,
    Message,
    Refusal,
    RequestView,
    Step,
    StepCall,
    ToolOffer,
    wire_arguments,
)

IDIOM = idiom_named("code_block")
VIEW = RequestView("m", ())
CALL = StepCall("call_1", "look", '{"at":"the sky"}')

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
arguments = st.dictionaries(
    st.text(max_size=5) | st.sampled_from(["city", "class", "a-b", "ª"]), values, max_size=4
)
calls = st.builds(
    lambda call_id, name, given: StepCall(call_id, name, wire_arguments(given)),
    st.text(max_size=8),
    st.sampled_from(["look", "get_weather", "überall"]),
    arguments,
)


def heard(*messages: Message) -> tuple[Message, ...]:
    return IDIOM.hear(RequestView("m", messages)).messages


def said(step: Step) -> str:
    spoken = IDIOM.say(step, VIEW)
    assert spoken.tool_calls == ()
    assert spoken.text is not None
    return spoken.text


def test_a_call_is_a_line_of_python_with_its_id() -> None:
    assert said(Step(text="I look.", tool_calls=(CALL,))) == (
        "I look.\n```python\nprint(look(at='the sky'))  # 'call_1'\n```"
    )


@given(st.none() | st.text(min_size=1), st.lists(calls, min_size=1, max_size=3).map(tuple))
def test_what_is_said_is_heard_as_it_was_meant(text: str | None, made: tuple[StepCall, ...]) -> None:
    step = Step(text=text, tool_calls=made)
    [message] = heard(Message("assistant", said(step)))
    assert message.text == (text or "")
    assert [(call.id, call.name, json.loads(call.arguments)) for call in message.tool_calls] == [
        (call.id, call.name, json.loads(call.arguments)) for call in made
    ]
    assert IDIOM.plain(IDIOM.say(step, VIEW)).text == text


def test_what_was_printed_is_the_result_of_each_call_of_the_block() -> None:
    other = StepCall("call_2", "look", "{}")
    block = said(Step(tool_calls=(CALL, other)))
    assert heard(Message("assistant", block), Message("user", "Observation:\nblue\ngreen")) == (
        Message("assistant", "", (CALL, other)),
        Message("tool", "blue\ngreen", tool_call_id="call_1"),
        Message("tool", "blue\ngreen", tool_call_id="call_2"),
    )


def test_an_observation_without_a_block_is_what_the_user_says() -> None:
    messages = (Message("assistant", "No call."), Message("user", "Observation:\nblue"))
    assert heard(*messages) == messages


@pytest.mark.parametrize(
    "code",
    ["import os", "look(at='x')", "print(look('x'))  # 'a'", "print(look(at=x))  # 'a'", "print(1)", "("],
)
def test_a_block_of_anothers_is_text(code: str) -> None:
    message = Message("assistant", f"```python\n{code}\n```")
    assert heard(message) == (message,)


def test_signatures_in_the_system_prompt_are_the_tools_that_are_offered() -> None:
    prompt = "Call these:\ndef look(at): ...\ndef go(where, when): ...\nand no def other(): ..."
    view = IDIOM.hear(RequestView("m", (Message("system", prompt), Message("user", "def no(): ..."))))
    assert view.tools == (ToolOffer("look"), ToolOffer("go"))


def test_text_and_its_finish_reason_are_as_they_are() -> None:
    step = Step(text="Done.", finish_reason=FinishReason.LENGTH)
    assert IDIOM.say(step, VIEW) == step
    cut = Step(tool_calls=(CALL,), finish_reason=FinishReason.LENGTH)
    assert IDIOM.say(cut, VIEW).finish is FinishReason.LENGTH
    assert IDIOM.say(Step(tool_calls=(CALL,)), VIEW).finish is FinishReason.STOP


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("a-b", "{}"), ("class", "{}"), ("ª", "{}"), ("look", '{"at": "the'), ("look", "[1]")],
)
def test_a_call_without_a_form_in_python_is_refused(name: str, arguments: str) -> None:
    with pytest.raises(Refusal) as refused:
        IDIOM.say(Step(tool_calls=(StepCall("c", name, arguments),)), VIEW)
    assert refused.value.code == "not_expressible"

"""Tools under names with a prefix: `mcp__server__tool`, as MCP clients name them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atp.models.scripted.idiom import idiom_named
from atp.models.scripted.steps import Message, RequestView, Step, StepCall, ToolOffer
from atp.protocol.errors import UnknownName

IDIOM = idiom_named("prefixed:mcp__bank__")
names = st.text(min_size=1, max_size=8)


def view(*offered: str, said: tuple[StepCall, ...] = ()) -> RequestView:
    messages = (Message("user", "Hello"), Message("assistant", "", said), Message("tool", "ok", (), "c"))
    return RequestView("m", messages, tuple(ToolOffer(name, "d", {"type": "object"}) for name in offered))


def call(name: str) -> StepCall:
    return StepCall("c", name, "{}")


def said(name: str, *offered: str) -> str:
    [spoken] = IDIOM.say(Step(tool_calls=(call(name),)), view(*offered)).tool_calls
    return spoken.name


def test_offers_and_earlier_calls_are_heard_under_the_bindings_names() -> None:
    heard = IDIOM.hear(view("mcp__bank__deposit", "think", said=(call("mcp__bank__deposit"),)))
    assert [tool.name for tool in heard.tools] == ["deposit", "think"]
    assert heard.tools[0].parameters == {"type": "object"}
    assert heard.messages[1].tool_calls == (call("deposit"),)


def test_the_harness_own_tools_are_called_by_their_names() -> None:
    assert said("think", "mcp__bank__deposit", "think") == "think"
    assert said("deposit", "mcp__bank__deposit", "deposit") == "mcp__bank__deposit"


def test_a_tool_that_nobody_offered_has_the_prefix() -> None:
    assert said("fly", "mcp__bank__deposit") == "mcp__bank__fly"


@given(names)
def test_what_is_said_is_plain_again(name: str) -> None:
    step = Step(text="x", tool_calls=(call(name),))
    assert IDIOM.plain(IDIOM.say(step, view())) == step


def test_a_prefix_has_to_be_named() -> None:
    with pytest.raises(UnknownName, match="prefixed:PREFIX"):
        idiom_named("prefixed:")

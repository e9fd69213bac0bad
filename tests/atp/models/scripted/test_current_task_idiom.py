"""The user's words, without those that CrewAI puts around them."""

from __future__ import annotations

from pathlib import Path

import pytest

from adapters.harnesses.crewai import CARD
from atp.engine import environments
from atp.engine.virtual_environment import ask
from atp.models.scripted.current_task import CurrentTask
from atp.models.scripted.steps import Message, RequestView

SLICES = """
from crewai.utilities.i18n import I18N_DEFAULT
print(*map(I18N_DEFAULT.slice, ("native_task", "task_no_tools")), sep="|", end="")
"""


def heard(*messages: Message) -> tuple[Message, ...]:
    return CurrentTask().hear(RequestView(model="m", stream=False, messages=messages, tools=())).messages


@pytest.mark.parametrize("words", ["One?", "\nCurrent Task: again", "two\n\nparagraphs", ""])
def test_the_users_words_are_heard_as_crewai_was_given_them(words: str) -> None:
    with_tools, without = (
        Message("user", f"\nCurrent Task: {words}"),
        Message("user", f"\nCurrent Task: {words}\n\nProvide your complete response:"),
    )
    assert heard(with_tools, without) == (Message("user", words), Message("user", words))


def test_whatever_else_is_said_stays_as_it_is() -> None:
    others = (
        Message("system", "\nCurrent Task: no"),
        Message("assistant", "\nCurrent Task: no"),
        Message("user", "Now it's time"),
    )
    assert heard(*others) == others


async def test_the_words_around_are_those_of_the_pinned_version(tmp_path: Path) -> None:
    python = (await environments.create(CARD)).python
    script = tmp_path / "slices.py"
    script.write_text(SLICES, encoding="utf-8")
    before = "\nCurrent Task: {input}"
    assert ask(python, script).decode() == f"{before}|{before}\n\nProvide your complete response:"

"""Reading `-o harness.KEY=VALUE` and the parts of a user's line, alike for all harnesses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from atp.protocol.errors import InvalidInput
from atp.protocol.task import Part, TextPart


def refuse_unknown(harness: str, options: Mapping[str, Any], known: Iterable[str]) -> None:
    """Refuse an option that a harness does not have.

    Args:
        harness: Its name.
        options: What was asked for.
        known: What it has.

    Raises:
        InvalidInput: Names the option, and those there are.
    """
    names = sorted(known)
    unknown = sorted(options.keys() - set(names))
    if unknown:
        there = ", ".join(f"harness.{name}" for name in names) or "none"
        raise InvalidInput(f"{harness} has no option harness.{unknown[0]}; it has {there}")


def flag(options: Mapping[str, Any], name: str) -> bool | None:
    """An option that is true or false; None where it was not given.

    Raises:
        InvalidInput: It is neither.
    """
    if name not in options:
        return None
    text = str(options[name]).lower()
    if text not in {"true", "false"}:
        raise InvalidInput(f"harness.{name} is true or false, not {options[name]!r}")
    return text == "true"


def texts_of(harness: str, parts: Sequence[Part]) -> list[str]:
    """The texts of a line that is text alone.

    Raises:
        InvalidInput: A part that the harness does not take.
    """
    texts: list[str] = []
    for part in parts:
        if not isinstance(part, TextPart):
            raise InvalidInput(f"{harness} takes text parts, not {part.type}")
        texts.append(part.text)
    return texts

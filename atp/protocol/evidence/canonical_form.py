"""What keeps a JSON value from having one canonical form (RFC 8785), so that no digest of it would hold."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from atp.protocol.evidence.document import DEEPEST
from atp.protocol.evidence.rules import Problem, Rule

LARGEST_INTEGER = 2**53 - 1
"""Beyond it, or below its negative, an integer is not exact in a double (RFC 7493, section 2.2)."""


def without_canonical_form(value: Any) -> Iterator[Problem]:
    """Every place that has none, or that is nested too deeply to be looked through."""
    waiting: list[tuple[Any, str, int]] = [(value, "", 1)]  # no recursion: what is checked may be deep
    while waiting:
        item, where, level = waiting.pop()
        if not isinstance(item, dict | list):
            if found := _scalar(item):
                yield Problem(found[0], where, found[1])
            continue
        if level > DEEPEST:
            yield Problem(Rule.NESTING, where, f"is nested deeper than {DEEPEST} levels")
            continue
        if isinstance(item, list):
            waiting.extend((inner, f"{where}/{index}", level + 1) for index, inner in enumerate(item))
            continue
        for key, inner in item.items():
            if has_utf8(key):
                waiting.append((inner, f"{where}/{pointer_token(key)}", level + 1))
            else:
                yield Problem(Rule.TEXT, where, "has a key with half of a surrogate pair")


def has_utf8(text: str) -> bool:
    """Whether a text has a UTF-8 form: half of a surrogate pair has none."""
    if text.isascii():
        return True
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def pointer_token(key: str) -> str:
    """A key as a step of a JSON Pointer."""
    return key.replace("~", "~0").replace("/", "~1")


def _scalar(item: Any) -> tuple[Rule, str] | None:
    if isinstance(item, str):
        return None if has_utf8(item) else (Rule.TEXT, "holds half of a surrogate pair")
    if isinstance(item, bool) or item is None:
        return None
    if isinstance(item, int):
        beyond = abs(item) > LARGEST_INTEGER
        return (Rule.NUMBER, f"the integer is beyond ±{LARGEST_INTEGER}") if beyond else None
    if isinstance(item, float):
        return None if math.isfinite(item) else (Rule.NUMBER, "is not a finite number")
    return Rule.TYPE, f"{type(item).__name__} is no type of JSON"

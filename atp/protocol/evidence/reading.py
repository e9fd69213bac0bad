"""The bytes of a document as one JSON value, by the strictest reading: no key twice, no NaN."""

from __future__ import annotations

import json
import math
from collections import Counter
from typing import Any, NoReturn

from atp.protocol.evidence.document import DEEPEST, MOST_BYTES
from atp.protocol.evidence.rules import Problem, Rule

_LONGEST_INTEGER = 20  # characters; longer ones are not even read


class Unreadable(Exception):
    """The bytes are not one JSON value.

    Args:
        rule: What they break.
        message: How.
    """

    def __init__(self, rule: Rule, message: str) -> None:
        super().__init__(message)
        self.problem = Problem(rule, "", message)


def parsed(content: bytes) -> Any:
    """The JSON value.

    Raises:
        Unreadable: Too large, not UTF-8, no JSON, too deep, a key twice, a number that is none.
    """
    if len(content) > MOST_BYTES:
        raise Unreadable(Rule.SIZE, f"has more than {MOST_BYTES} bytes")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Unreadable(Rule.UTF8, f"is not UTF-8: {error.reason} at byte {error.start}") from error
    try:
        return json.loads(
            text,
            object_pairs_hook=_object,
            parse_constant=_no_number,
            parse_float=_number,
            parse_int=_integer,
        )
    except RecursionError as error:
        raise Unreadable(Rule.NESTING, f"is nested deeper than {DEEPEST} levels") from error
    except json.JSONDecodeError as error:
        raise Unreadable(Rule.JSON, f"is not JSON: {error}") from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        twice = next(key for key, count in counts.items() if count > 1)
        raise Unreadable(Rule.KEY_REPEATED, f"has the key {twice[:60]!r} twice in one object")
    return value


def _no_number(text: str) -> NoReturn:
    raise Unreadable(Rule.NUMBER, f"{text} is not a number of JSON")


def _number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise Unreadable(Rule.NUMBER, f"{text[:60]} is beyond the numbers of a double")
    return value


def _integer(text: str) -> int:
    if len(text) > _LONGEST_INTEGER:
        raise Unreadable(Rule.NUMBER, f"{text[:60]} is beyond the integers of a double")
    return int(text)

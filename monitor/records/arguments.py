"""The model's text against what the binding got: the arguments of one tool call, twice.

Two are the same when they are the same JSON value. The order of keys and the way a character or a
number is written say nothing; 2 and 2.0, 0.0 and -0.0, 1 and true do. Of a key that stands twice the
last counts, as for nearly every reader of JSON (RFC 8259, section 4, leaves it open). A text that is
no JSON, an empty one too, is the same as itself alone: whatever else is delivered the harness made up.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from monitor.records.codes import Code, difference

_SHOWN = 200
"""Characters of a value in a sentence."""


@dataclass(frozen=True, slots=True)
class AlteredArguments:
    """A call whose arguments are not those that the model wrote."""

    call_id: str
    name: str
    written: str
    """The model's text."""
    delivered: JsonValue
    """What the binding got."""


def altered(written: str, delivered: JsonValue) -> bool:
    """Whether the harness delivers something else than the model wrote."""
    try:
        return _form(json.loads(written)) != _form(delivered)
    except (ValueError, RecursionError):
        # No JSON, or none that can be read: too deep, or a number of too many digits.
        return delivered != written


def altered_arguments(calls: Sequence[AlteredArguments]) -> tuple[list[str], list[str]]:
    """What altered calls come to.

    Returns:
        Differences, and what is the harness's nature. Calls of one tool that got each other's arguments
        are a difference: their ids, by which the model reads the results, are swapped.
    """
    swapped = list(_swapped(calls))
    differences = [
        difference(
            Code.CALL_IDS_SWAPPED,
            f"call {call.call_id} ({call.name}): the model wrote {_shown(call.written)}, the binding got "
            f"{_shown(_form(call.delivered))}, which the model wrote for call {other.call_id}",
        )
        for call, other in swapped
    ]
    named = {id(call) for call, _ in swapped}
    native = [
        difference(
            Code.ARGUMENTS_ALTERED,
            f"call {call.call_id} ({call.name}): the model wrote {_shown(call.written)}, the binding got "
            f"{_shown(_form(call.delivered))}",
        )
        for call in calls
        if id(call) not in named
    ]
    return differences, native


def _swapped(calls: Sequence[AlteredArguments]) -> Iterator[tuple[AlteredArguments, AlteredArguments]]:
    by_tool: defaultdict[str, list[AlteredArguments]] = defaultdict(list)
    for call in calls:
        by_tool[call.name].append(call)
    for call in calls:
        for other in by_tool[call.name]:
            if other.call_id != call.call_id and not altered(other.written, call.delivered):
                yield call, other
                break


def _form(value: JsonValue) -> str:
    # As JSON text 1, 1.0 and true differ, which as Python values they do not.
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def _shown(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({len(text)} characters)"

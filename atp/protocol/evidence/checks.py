"""Whether something is a valid `target-evidence-v1` document, with a message for every rule it breaks.

Pure: no file, no network. A document that passes has one canonical form (RFC 8785): its numbers are finite
and its integers exact in a double, its texts have a UTF-8 form.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from atp.protocol.evidence.canonical_form import pointer_token, without_canonical_form
from atp.protocol.evidence.document import (
    CHANNEL_OF,
    REQUIRED_CHANNELS,
    TargetEvidence,
    ToolCallEvent,
    ToolResultEvent,
    event_id,
)
from atp.protocol.evidence.moments import nanoseconds
from atp.protocol.evidence.reading import Unreadable, parsed
from atp.protocol.evidence.rules import Problem, Rule

_SHOWN = 60  # characters of a value in a message
_BY_KEY = {
    "schema_version": Rule.SCHEMA_VERSION,
    "assurance_level": Rule.ASSURANCE_LEVEL,
    "observed_channels": Rule.CHANNEL,
    "role": Rule.ROLE,
}
_BY_ERROR = {
    "missing": Rule.KEY_MISSING,
    "extra_forbidden": Rule.KEY_UNKNOWN,
    "union_tag_invalid": Rule.EVENT_TYPE,
    "union_tag_not_found": Rule.KEY_MISSING,
    "string_pattern_mismatch": Rule.PATTERN,
    "greater_than_equal": Rule.SEQUENCE,
    "time": Rule.TIME,
    "file_change": Rule.FILE_CHANGE,
}


@dataclass(frozen=True, slots=True)
class Checked:
    """What came of a check."""

    document: TargetEvidence | None
    """None where its structure is not one of a document."""
    problems: tuple[Problem, ...]

    @property
    def valid(self) -> bool:
        """Whether every rule is kept."""
        return not self.problems


def checked(content: bytes, run_id: str | None = None, case_id: str | None = None) -> Checked:
    """Check a document as it was received.

    Args:
        content: Its bytes.
        run_id: The run it has to be of; None takes any.
        case_id: The case it has to be of; None takes any.
    """
    try:
        value = parsed(content)
    except Unreadable as error:
        return Checked(None, (error.problem,))
    return _checked(value, run_id, case_id)


def problems(value: Any, run_id: str | None = None, case_id: str | None = None) -> tuple[Problem, ...]:
    """The rules that a JSON value breaks as a document; see `checked`."""
    return _checked(value, run_id, case_id).problems


def _checked(value: Any, run_id: str | None, case_id: str | None) -> Checked:
    plain = tuple(without_canonical_form(value))
    if plain:
        return Checked(None, plain)
    try:
        document = TargetEvidence.model_validate(value)
    except ValidationError as error:
        return Checked(None, tuple(_of_structure(each) for each in error.errors(include_url=False)))
    return Checked(document, tuple(_of_the_whole(document, run_id, case_id)))


def _of_structure(error: ErrorDetails) -> Problem:
    place = list(error["loc"])
    if place[:1] == ["events"] and len(place) > 2:
        del place[2]  # the type of the event, which is no part of the document
    where = "".join(f"/{pointer_token(str(step))}" for step in place)
    kind, message = error["type"], error["msg"]
    named = next((_BY_KEY[str(step)] for step in reversed(place) if step in _BY_KEY), None)
    rule = _BY_ERROR.get(kind)
    if rule is None:
        if kind == "literal_error" and named is not None:
            rule = named
        elif kind.endswith(("too_short", "too_long")):
            rule = Rule.LENGTH
        else:
            rule = Rule.TYPE
    if kind in ("literal_error", "string_pattern_mismatch") or kind.endswith("_type"):
        message = f"{_shown(error['input'])}: {message}"
    return Problem(rule, where, message)


def _of_the_whole(document: TargetEvidence, run_id: str | None, case_id: str | None) -> Iterator[Problem]:
    if run_id is not None and document.run_id != run_id:
        yield Problem(Rule.RUN, "/run_id", f"is {document.run_id}, the run is {run_id}")
    if case_id is not None and document.case_id != case_id:
        yield Problem(Rule.CASE, "/case_id", f"is {document.case_id}, the case is {case_id}")
    channels = document.observed_channels
    if missing := [channel for channel in REQUIRED_CHANNELS if channel not in channels]:
        yield Problem(Rule.CHANNELS_REQUIRED, "/observed_channels", f"lacks {', '.join(missing)}")
    if len(set(channels)) < len(channels):
        yield Problem(Rule.CHANNEL_REPEATED, "/observed_channels", "names a channel twice")
    yield from _places_and_times(document)
    yield from _calls_and_results(document)


def _places_and_times(document: TargetEvidence) -> Iterator[Problem]:
    started, finished = nanoseconds(document.started_at), nanoseconds(document.finished_at)
    if finished < started:
        yield Problem(Rule.SPAN_OF_TIME, "/finished_at", f"is before started_at, {document.started_at}")
    before = None
    for index, event in enumerate(document.events):
        where = f"/events/{index}"
        if event.sequence != index:
            yield Problem(Rule.SEQUENCE, f"{where}/sequence", f"is {event.sequence} at index {index}")
        if event.event_id != (expected := event_id(document.run_id, event.sequence)):
            yield Problem(
                Rule.EVENT_ID, f"{where}/event_id", f"is {_shown(event.event_id)}, not {_shown(expected)}"
            )
        channel = CHANNEL_OF[event.type]
        if channel not in document.observed_channels and channel not in REQUIRED_CHANNELS:
            message = f"{event.type} is seen through {channel}, which observed_channels does not name"
            yield Problem(Rule.CHANNEL_UNDECLARED, f"{where}/type", message)
        occurred = nanoseconds(event.occurred_at)
        if not started <= occurred <= finished:
            message = f"{event.occurred_at} is not within started_at and finished_at"
            yield Problem(Rule.TIME_OUTSIDE, f"{where}/occurred_at", message)
        if before is not None and occurred < before:
            message = f"{event.occurred_at} is earlier than the event before"
            yield Problem(Rule.TIME_ORDER, f"{where}/occurred_at", message)
        before = occurred


def _calls_and_results(document: TargetEvidence) -> Iterator[Problem]:
    places: dict[str, int] = {}
    names: dict[str, str] = {}
    for index, event in enumerate(document.events):
        if isinstance(event, ToolCallEvent):
            call_id = event.data.call_id
            if call_id in places:
                message = f"{_shown(call_id)} is the call of event {places[call_id]} already"
                yield Problem(Rule.CALL_REPEATED, f"/events/{index}/data/call_id", message)
            else:
                places[call_id], names[call_id] = index, event.data.name
    answered: dict[str, int] = {}
    for index, event in enumerate(document.events):
        if not isinstance(event, ToolResultEvent):
            continue
        call_id, where = event.data.call_id, f"/events/{index}/data"
        if call_id not in places:
            message = f"no tool.call has the id {_shown(call_id)}"
            yield Problem(Rule.RESULT_WITHOUT_CALL, f"{where}/call_id", message)
            continue
        if places[call_id] > index:
            message = f"the call {_shown(call_id)} comes later, as event {places[call_id]}"
            yield Problem(Rule.RESULT_BEFORE_CALL, f"{where}/call_id", message)
        if event.data.name != names[call_id]:
            message = f"is {_shown(event.data.name)}, the call's is {_shown(names[call_id])}"
            yield Problem(Rule.RESULT_NAME, f"{where}/name", message)
        if call_id in answered:
            message = f"{_shown(call_id)} has its result in event {answered[call_id]} already"
            yield Problem(Rule.RESULT_REPEATED, f"{where}/call_id", message)
        answered.setdefault(call_id, index)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"

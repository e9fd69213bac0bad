"""What holds of a harness whatever its tasks: scores, streams, limits, an end when it is told to end."""

from __future__ import annotations

from atp.conformance.check import Problems
from atp.conformance.evidence import Evidence
from atp.conformance.probe_tasks import ENDLESS, MAX_TURNS, SPENDS, WAITS
from atp.protocol.spans import SpanKind, SpanStatus
from atp.protocol.status import Status, StopReason
from monitor import vocabulary as v


def oracle(evidence: Evidence) -> Problems:
    """A model that does what the task expects gets the full score.

    Source: `docs/scripted-models.md`; anything less is the adapter's doing.
    """
    for mode in evidence.modes:
        for attempt in mode.oracle.values():
            score = attempt.grade.score if attempt.grade else None
            if score != 1.0:
                yield f"{mode.label}, {attempt.probe.name}: scores {score}; it ended {attempt.summary}"


def noop(evidence: Evidence) -> Problems:
    """A model that does nothing is called nothing else by the harness: no call is made, the score is 0.

    Source: `docs/scripted-models.md`.
    """
    for mode in evidence.modes:
        for attempt in mode.noop.values():
            score = attempt.grade.score if attempt.grade else None
            if score != 0.0 or attempt.trace.tool_calls:
                where = f"{mode.label}, {attempt.probe.name}"
                made = len(attempt.trace.tool_calls)
                yield f"{where}: scores {score} with {made} calls; it ended {attempt.summary}"


def streaming(evidence: Evidence) -> Problems:
    """Where the harness is asked to stream, every request asks for a stream, and the model spans say so.

    Source: the card's option `stream`.
    """
    for mode in evidence.modes:
        if not mode.streamed:
            continue
        for attempt in mode.scripted.values():
            if not all(request.streamed for request in attempt.requests):
                yield f"{mode.label}, {attempt.probe.name}: a request does not ask for a stream"
            models = [span for span in attempt.spans if span.kind is SpanKind.MODEL]
            if not all(span.attributes.get(v.MODEL_STREAM) is True for span in models):
                yield f"{mode.label}, {attempt.probe.name}: a model span does not say that it was a stream"


def turn_limit(evidence: Evidence) -> Problems:
    """With `max_turns`, the endpoint answers that many model calls and the card's extra ones, no more and no
    fewer, and the run ends `limit` with `max_turns`.

    Source: the design's "the SDK's native limit is the soft one and may make its forced last call"; the
    card's `extra_calls_at_limit`.
    """
    attempt = evidence.bounded[ENDLESS.name]
    ending = (attempt.trace.status, attempt.trace.stop_reason)
    if ending != (Status.LIMIT, StopReason.MAX_TURNS):
        yield f"it ended {attempt.summary}"
    answered = sum(request.response_id is not None for request in attempt.requests)
    allowed = MAX_TURNS + evidence.card.extra_calls_at_limit
    if answered != allowed:
        yield f"the endpoint answered {answered} model calls, where {allowed} are allowed"


def hard_limit(evidence: Evidence) -> Problems:
    """A limit from outside ends the run where it stands: a tool that is being executed is cut off, no model
    call comes after it, and the harness lets itself be ended.

    Source: the design's "the hard one is ours, outside".
    """
    attempt = evidence.bounded[SPENDS.name]
    ending = (attempt.trace.status, attempt.trace.stop_reason)
    if ending != (Status.LIMIT, StopReason.MAX_TOTAL_TOKENS):
        yield f"it ended {attempt.summary}"
    if len(attempt.requests) != 2:
        yield f"{len(attempt.requests)} model calls were made, not 2"
    yield from _left_behind(evidence, SPENDS.name)


def cancel(evidence: Evidence) -> Problems:
    """A cancelled attempt ends by itself, and nothing of it goes on: no tool, no span, no model call.

    Source: the design's limits, and `RunContext`: a cancel reaches the runner as `CancelledError`.
    """
    attempt = evidence.bounded[WAITS.name]
    if attempt.trace.status is not Status.CANCELLED:
        yield f"it ended {attempt.summary}"
    if len(attempt.requests) != 1:
        yield f"{len(attempt.requests)} model calls were made, not 1"
    yield from _left_behind(evidence, WAITS.name)


def _left_behind(evidence: Evidence, name: str) -> Problems:
    attempt = evidence.bounded[name]
    if attempt.trace.error is not None:
        yield f"it did not end when it was told to: {attempt.trace.error.message}"
    if attempt.environment.running:
        yield f"{attempt.environment.running} tools go on"
    if not attempt.environment.closed:
        yield "its environment was not closed"
    if attempt.late_requests:
        yield f"it went on to ask its model {attempt.late_requests} times"
    for span in attempt.spans:
        if span.status is SpanStatus.OPEN:
            yield f"the {span.kind} span {span.name!r} is still open"


CORE_CHECKS = (oracle, noop, streaming, turn_limit, hard_limit, cancel)

"""The document of a run: its events in order, numbered, timed, and within their bounds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from atp.protocol.evidence import REQUIRED_CHANNELS, SCHEMA_VERSION, event_id, timestamp
from atp.protocol.spans import Span, SpanStatus
from monitor import vocabulary as v
from monitor.evidence.happenings import happenings
from monitor.evidence.messages import attachments_of, messages, text_of
from monitor.evidence.order import Happening, Rank, ordered
from monitor.evidence.size import Canonical, Event, fitting
from monitor.evidence.tree import SpanTree, about, duration_ms
from monitor.evidence.values import Bounds

SOURCE = "atp.monitor"
"""What observed the events."""


def evidence_document(
    run_id: str, case_id: str, spans: Sequence[Span], bodies: Mapping[str, Any], canonical: Canonical
) -> dict[str, Any] | None:
    """A run as a `target-evidence-v1` document.

    The same spans give the same document, in whatever order they came. It holds what was seen of the agent:
    messages, and all calls of the benchmark's tools. What judges said is left out.

    Args:
        run_id: The run.
        case_id: What its task is called towards a target.
        spans: All of the run's.
        bodies: Digest -> JSON value of what they name, lists resolved. What is not there was not captured,
            and its event says so.
        canonical: The canonical form of a JSON value, RFC 8785.

    Returns:
        The document as JSON; None where no agent was seen, so that there is nothing to tell.
    """
    tree = SpanTree(spans)
    if tree.root is None:
        return None
    events: list[Event] = [
        {
            "event_id": event_id(run_id, sequence),
            "sequence": sequence,
            "occurred_at": timestamp(time_ns),
            "source": SOURCE,
            "type": happening.type,
            "data": happening.data,
        }
        for sequence, (happening, time_ns) in enumerate(
            _timed(tree.root.start_ns, _told(tree, tree.root, bodies))
        )
    ]
    failures = tree.root.attributes.get(v.RECORDER_FAILURES)
    emitted = fitting(events, failures if isinstance(failures, int) else 0, canonical)
    started = timestamp(tree.root.start_ns)
    finished = max(timestamp(tree.root.end_ns or tree.root.start_ns), events[-1]["occurred_at"])
    return {
        "schema_version": SCHEMA_VERSION,
        "run_id": run_id,
        "case_id": case_id,
        "assurance_level": "L2",
        "observed_channels": list(REQUIRED_CHANNELS),
        "started_at": started,
        "finished_at": finished,
        "events": list(_renumbered(emitted, run_id)),
    }


def _told(tree: SpanTree, root: Span, bodies: Mapping[str, Any]) -> Iterator[Happening]:
    """The question, what came of it, and what ended it."""
    asked = _asked(root, bodies)
    if asked is not None:
        yield asked
    seen = [each for each in ordered(happenings(tree, bodies)) if each.type is not None]
    yield from seen
    if root.status is not SpanStatus.OK:
        yield _failed(root)
    elif asked is None and not seen:  # a document has at least one event
        yield _of_root(root, "lifecycle", {"name": "agent.completed", "status": "ok"}, {})


def _asked(root: Span, bodies: Mapping[str, Any]) -> Happening | None:
    said = messages(root, v.INPUT, bodies)
    text, attachments = text_of(said, "user"), attachments_of(said)
    if not text.strip():
        if not attachments:
            return None
        text = "[attachments]"  # a message has a text; what is attached is among the attributes
    bounds = Bounds()
    more = {"attachments": bounds.value("attachments", attachments)} if attachments else {}
    data = {"role": "user", "text": bounds.text("text", text)}
    happening = _of_root(root, "message", data, {**more, **bounds.attributes()})
    happening.time_ns = root.start_ns
    return happening


def _failed(root: Span) -> Happening:
    bounds = Bounds()
    if root.status is SpanStatus.OPEN:
        message = "the run did not come to an end: its agent span is open"
    else:
        message = root.error_message or root.error_type or f"the agent span ended as {root.status}"
    more = about(
        root,
        status=str(root.status),
        error_type=None if root.error_type is None else bounds.text("error_type", root.error_type, 256),
        duration_ms=duration_ms(root),
    )
    return _of_root(
        root, "run.error", {"message": bounds.text("message", message)}, {**more, **bounds.attributes()}
    )


def _of_root(root: Span, kind: str, data: dict[str, Any], more: Mapping[str, Any]) -> Happening:
    attributes = {**about(root), **more}
    end_ns = root.start_ns if root.end_ns is None else root.end_ns
    return Happening(
        end_ns, Rank.USER, root.start_ns, root.span_id, type=kind, data={**data, "attributes": attributes}
    )


def _timed(started_ns: int, told: Iterator[Happening]) -> Iterator[tuple[Happening, int]]:
    """Each with its time in the document, which never goes back; the clock's own time stays beside it."""
    latest = started_ns
    for happening in told:
        time_ns = happening.time_ns
        if time_ns < latest:
            happening.data["attributes"].update(observed_at=timestamp(time_ns), clock_adjusted=True)
            time_ns = latest
        latest = time_ns
        yield happening, time_ns


def _renumbered(events: Sequence[Event], run_id: str) -> Iterator[Event]:
    time = events[0]["occurred_at"]
    for sequence, event in enumerate(events):
        time = event.get("occurred_at", time)
        yield {
            "source": SOURCE,
            **event,
            "event_id": event_id(run_id, sequence),
            "sequence": sequence,
            "occurred_at": time,
        }

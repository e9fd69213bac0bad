"""`atp trace`: the spans of a run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from atp.cli.options import Settings, command
from atp.cli.output import print_json, printable

if TYPE_CHECKING:
    from atp.protocol.spans import Span
    from atp.store.rows import AttemptRow

WIDTH = 80


@command
def trace(
    settings: Settings,
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run id, or its beginning.")],
    tree: Annotated[bool, typer.Option("--tree", help="Only the tree, without contents.")] = False,
) -> None:
    """Show a run's spans as a tree: kinds, times, tokens, arguments and results."""
    from atp.store.store import Store

    with Store.open(settings.db, readonly=True) as store:
        attempt = store.attempt(run)
        spans = store.spans(attempt.run_id)
        bodies = store.bodies(attempt.run_id)
    if settings.json:
        print_json(_document(attempt, spans, bodies))
        return
    for line in _lines(attempt, spans, {} if tree else bodies):
        print(line if len(line) <= WIDTH else line[: WIDTH - 1] + "…")


def _document(attempt: AttemptRow, spans: Sequence[Span], bodies: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "run_id": attempt.run_id,
        "trace_id": attempt.trace_id,
        "status": str(attempt.status or "running"),
        "spans": [
            {
                "span_id": span.span_id,
                "parent_id": span.parent_id,
                "parent_source": span.parent_source,
                "name": span.name,
                "kind": span.kind,
                "start": _time(span.start_ns),
                "end": None if span.end_ns is None else _time(span.end_ns),
                "status": span.status,
                "attributes": {
                    **span.attributes,
                    **{name: bodies[digest] for name, digest in span.bodies.items()},
                },
                "events": [
                    {"name": event.name, "time": _time(event.time_ns), "attributes": dict(event.attributes)}
                    for event in span.events
                ],
                "error": None
                if span.error_type is None
                else {"type": span.error_type, "message": span.error_message},
            }
            for span in spans
        ],
    }


def _lines(attempt: AttemptRow, spans: Sequence[Span], bodies: Mapping[str, Any]) -> Iterator[str]:
    yield f"{attempt.run_id}  {attempt.status or 'running'}  task {_plain(attempt.slot.task_id)}"
    known = {span.span_id for span in spans}
    children: dict[str | None, list[Span]] = {}
    for span in spans:
        parent = span.parent_id if span.parent_id in known else None
        children.setdefault(parent, []).append(span)
    yield from _subtree(children, None, "", bodies)


def _subtree(
    children: Mapping[str | None, Sequence[Span]], parent: str | None, indent: str, bodies: Mapping[str, Any]
) -> Iterator[str]:
    spans = children.get(parent, ())
    for span in spans:
        last = span is spans[-1]
        yield indent + ("└─ " if last else "├─ ") + _headline(span)
        deeper = indent + ("   " if last else "│  ")
        rail = deeper + ("│  " if span.span_id in children else "   ")
        for detail in _details(span, bodies):
            yield rail + detail
        yield from _subtree(children, span.span_id, deeper, bodies)


def _headline(span: Span) -> str:
    from atp.protocol.spans import Actor
    from monitor.vocabulary import ACTOR, USAGE_INPUT, USAGE_OUTPUT

    parts = [str(span.kind), _plain(span.name)]
    actor = span.attributes.get(ACTOR, Actor.AGENT)
    if actor != Actor.AGENT:
        parts.append(f"for the {_plain(actor)}")
    if span.end_ns is not None:
        parts.append(f"{(span.end_ns - span.start_ns) / 1e9:.3f} s")
    if USAGE_INPUT in span.attributes or USAGE_OUTPUT in span.attributes:
        shown = [span.attributes.get(name) for name in (USAGE_INPUT, USAGE_OUTPUT)]
        parts.append(" -> ".join("?" if value is None else str(value) for value in shown) + " tokens")
    parts.append(str(span.status))
    return "  ".join(parts)


def _details(span: Span, bodies: Mapping[str, Any]) -> Iterator[str]:
    from monitor.vocabulary import ARGUMENTS, OUTPUT_MESSAGES, RESULT

    for name in (ARGUMENTS, RESULT, OUTPUT_MESSAGES):
        digest = span.bodies.get(name)
        if digest is None or digest not in bodies:
            continue
        value = bodies[digest]
        if name == OUTPUT_MESSAGES:
            yield from _message_lines(value)
        else:
            yield f"{name.rpartition('.')[2]}: {_plain(value)}"
    if span.error_type is not None:
        yield f"error: {span.error_type}: {_plain(span.error_message or '')}"


def _message_lines(messages: Any) -> Iterator[str]:
    for message in messages:
        for part in message.get("parts", ()):
            if part["type"] == "tool_call":
                yield f"asks for {_plain(part.get('name'))}({_plain(part.get('arguments'))})"
            elif part["type"] in ("text", "reasoning"):
                verb = "says" if part["type"] == "text" else "thinks"
                yield f"{verb}: {_plain(part.get('content'))}"


def _plain(value: Any) -> str:
    # What a model or a tool wrote may hold line breaks and terminal escapes; none reaches the terminal.
    return printable(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _time(ns: int) -> str:
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=ns // 1000)).isoformat()

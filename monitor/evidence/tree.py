"""The spans of a run as evidence sees them: whose they are, and within what they happened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from atp.protocol.spans import Actor, Span, SpanKind
from monitor.vocabulary import ACTOR

_SCOPES = (SpanKind.AGENT, SpanKind.SKILL, SpanKind.TOOL)


@dataclass(frozen=True, slots=True)
class _Below:
    """What a span hands down."""

    hidden: bool = False
    scope: Span | None = None


class SpanTree:
    """The spans that may be shown, in an order that does not depend on how they came.

    A judge's, and whatever is not the agent's or its user's, stay out with all that is below them: evidence
    that quotes a judge tells the next judge what to say. Of a simulated user only what it said is shown.

    Args:
        spans: Of one run, in any order.
    """

    def __init__(self, spans: Sequence[Span]) -> None:
        self._by_id = {span.span_id: span for span in sorted(spans, key=span_key)}
        found = list(self._by_id.values())
        agents = [span for span in found if span.kind is SpanKind.AGENT]
        tops = [span for span in agents if span.parent_id is None]
        self.root: Span | None = next(iter(tops or agents), None)
        """The attempt's agent."""
        self._below: dict[str, _Below] = {}
        for span in found:
            self._hand_down(span)
        self.spans = [span for span in found if self._shown(span)]
        """Without the hidden ones, by start."""

    def parent(self, span: Span) -> Span | None:
        """The span it is below of, if that was recorded."""
        return self._by_id.get(span.parent_id) if span.parent_id is not None else None

    def scope(self, span: Span) -> Span | None:
        """The nearest nested agent, skill or tool that it happened within."""
        parent = self.parent(span)
        return None if parent is None else self._below[parent.span_id].scope

    def _hand_down(self, span: Span) -> None:
        path: dict[str, Span] = {}
        above: Span | None = span
        while above is not None and above.span_id not in self._below and above.span_id not in path:
            path[above.span_id] = above
            above = self.parent(above)
        # Above a circle of parents, which only damage makes, there is nothing.
        below = _Below() if above is None else self._below.get(above.span_id, _Below())
        for each in reversed(path.values()):
            scope = each if each.kind in _SCOPES and each is not self.root else below.scope
            below = _Below(below.hidden or actor(each) is not Actor.AGENT, scope)
            self._below[each.span_id] = below

    def _shown(self, span: Span) -> bool:
        parent = self.parent(span)
        if parent is not None and self._below[parent.span_id].hidden:
            return False
        return actor(span) in (Actor.AGENT, Actor.USER_SIMULATOR)


def span_key(span: Span) -> tuple[int, str]:
    """The order of spans by start."""
    return span.start_ns, span.span_id


def actor(span: Span) -> Actor | None:
    """Whom a span belongs to; None where it names nobody that is known."""
    named = span.attributes.get(ACTOR, Actor.AGENT.value)
    return next((each for each in Actor if each.value == named), None)


def about(span: Span, **more: Any) -> dict[str, Any]:
    """The attributes of an event that say where it comes from; what is not known is left out."""
    known: Mapping[str, Any] = {
        "span_id": span.span_id,
        "trace_id": span.trace_id,
        "parent_id": span.parent_id,
        **more,
    }
    return {name: value for name, value in known.items() if value is not None}


def duration_ms(span: Span) -> float | None:
    """How long it took, in milliseconds; None where it has not ended."""
    if span.end_ns is None or span.end_ns < span.start_ns:
        return None
    return (span.end_ns - span.start_ns) / 1e6

"""Model spans as records of model calls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from atp.protocol.records import ModelCallRecord
from atp.protocol.spans import AttributeValue, Span, SpanEnd, SpanKind
from atp.protocol.trace import Usage
from monitor import vocabulary as v


def model_calls(spans: Sequence[SpanEnd | Span]) -> list[ModelCallRecord]:
    """The model calls that model spans tell of, in the spans' order; failed ones among them."""
    return [_model_call(span) for span in _model_spans(spans)]


def rejected_calls(spans: Sequence[SpanEnd | Span]) -> frozenset[str]:
    """Ids of announced tool calls that the harness itself refused."""
    return frozenset(
        call_id
        for span in _model_spans(spans)
        for call_id in _texts(span.attributes.get(v.REJECTED_CALL_IDS))
    )


def _model_call(span: SpanEnd | Span) -> ModelCallRecord:
    attributes = span.attributes
    return ModelCallRecord(
        response_id=_text(attributes.get(v.RESPONSE_ID)),
        model=_text(attributes.get(v.MODEL_ANSWERED)),
        usage=Usage(**{field: _integer(attributes.get(name)) for field, name in v.USAGE.items()}),
        finish_reason=_text(attributes.get(v.FINISH_REASON)),
        tool_calls=tuple(
            zip(
                _texts(attributes.get(v.ANNOUNCED_CALL_IDS)),
                _texts(attributes.get(v.ANNOUNCED_CALL_NAMES)),
                strict=True,
            )
        ),
        actor=_text(attributes.get(v.ACTOR)) or "agent",
        retries=_integer(attributes.get(v.RETRIES)),
        failed_statuses=tuple(
            status
            for event in span.events
            if event.name == v.FAILED_TRY
            and (status := _integer(event.attributes.get("http.status_code"))) is not None
        ),
        written_calls=tuple(_texts(attributes.get(v.WRITTEN_CALL_NAMES))),
    )


def _model_spans(spans: Sequence[SpanEnd | Span]) -> Iterator[SpanEnd | Span]:
    for span in spans:
        kind = span.start.kind if isinstance(span, SpanEnd) else span.kind
        if kind is SpanKind.MODEL:
            yield span


def _text(value: AttributeValue) -> str | None:
    return value if isinstance(value, str) else None


def _texts(value: AttributeValue) -> list[str]:
    return value if isinstance(value, list) else []


def _integer(value: AttributeValue) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None

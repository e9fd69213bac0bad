"""Tool spans as the engine records them."""

from __future__ import annotations

import json
from typing import Any

from atp.protocol.spans import ParentSource, SpanKind, SpanStatus
from atp.protocol.trace import CallIdSource
from monitor import vocabulary as v
from monitor.tool_spans import EngineToolSpan, engine_tool_span


def started(arguments: Any = None) -> EngineToolSpan:
    return engine_tool_span(
        run_id="run-a",
        trace_id="0" * 31 + "1",
        span_id="0" * 15 + "2",
        parent_id="0" * 15 + "3",
        parent_source=ParentSource.CALL_ID,
        name="weather",
        arguments={"city": "Paris"} if arguments is None else arguments,
        call_id="call_1",
        call_id_source=CallIdSource.MODEL,
        start_ns=10,
    )


def test_the_start_says_who_asked_for_what() -> None:
    span = started()
    assert (span.start.kind, span.start.name, span.start.start_ns) == (SpanKind.TOOL, "weather", 10)
    assert span.start.parent_source is ParentSource.CALL_ID
    assert span.start.attributes == {
        v.TOOL_NAME: "weather",
        v.TOOL_CALL_ID: "call_1",
        v.TOOL_CALL_ID_SOURCE: "model",
    }
    assert json.loads(span.bodies[span.start.bodies[v.ARGUMENTS]]) == {"city": "Paris"}


def test_the_end_names_arguments_and_result() -> None:
    end, bodies = started().end(20, result={"sky": "clear"})
    assert (end.status, end.end_ns, end.error_type) == (SpanStatus.OK, 20, None)
    assert end.bodies.keys() == {v.ARGUMENTS, v.RESULT}
    assert json.loads(bodies[end.bodies[v.RESULT]]) == {"sky": "clear"}


def test_a_result_of_null_is_a_result() -> None:
    end, bodies = started().end(20, result=None)
    assert bodies[end.bodies[v.RESULT]] == b"null"


def test_an_error_is_no_result() -> None:
    end, bodies = started().end(20, error="no such city")
    assert (end.status, end.error_message, end.error_type) == (
        SpanStatus.ERROR,
        "no such city",
        "tool_error",
    )
    assert v.RESULT not in end.bodies
    assert bodies == {}


def test_values_without_an_exact_form_are_counted() -> None:
    end, _ = started({"x": float("nan")}).end(20, result=float("inf"))
    assert end.attributes[v.VALUES_ALTERED] == 2

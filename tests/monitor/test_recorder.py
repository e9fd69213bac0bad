"""The recorder: OTel ids and context, two records per span, nothing raised, nothing lost."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading

import pytest
from opentelemetry import trace as otel_trace
from opentelemetry.trace import StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from atp.protocol.spans import ParentSource, SpanEnd, SpanKind, SpanStart, SpanStatus
from monitor import vocabulary as v
from monitor.recorder import SpanRecorder
from monitor.tracing import process_tracing
from tests.monitor.memory_sink import MemorySink


@pytest.fixture
def sink() -> MemorySink:
    return MemorySink()


@pytest.fixture
def recorder(sink: MemorySink) -> SpanRecorder:
    return SpanRecorder(sink, "run-a", name="agent")


def test_a_start_is_handed_over_before_the_end(recorder: SpanRecorder, sink: MemorySink) -> None:
    span = recorder.start(SpanKind.MODEL, "m")
    assert [start.name for start in sink.starts] == ["agent", "m"]
    assert sink.ends == []
    span.end()
    assert [end.start for end in sink.ends] == [sink.starts[1]]


def test_the_root_has_no_parent_and_the_trace_id_it_was_given(sink: MemorySink) -> None:
    recorder = SpanRecorder(sink, "run-a", trace_id="0af7651916cd43dd8448eb211c80319c")
    [root] = sink.starts
    assert (root.parent_id, root.parent_source) == (None, ParentSource.ROOT)
    assert root.trace_id == recorder.trace_id == "0af7651916cd43dd8448eb211c80319c"


def test_an_explicit_handle_is_the_parent(recorder: SpanRecorder) -> None:
    parent = recorder.start(SpanKind.AGENT, "inner")
    child = recorder.start(SpanKind.MODEL, "m", parent=parent).start_record
    assert (child.parent_id, child.parent_source) == (parent.span_id, ParentSource.HANDLE)


def test_without_a_handle_the_current_otel_span_is_the_parent(recorder: SpanRecorder) -> None:
    parent = recorder.start(SpanKind.CHAIN, "step")
    with recorder.as_current(parent.span_id):
        child = recorder.start(SpanKind.MODEL, "m").start_record
    assert (child.parent_id, child.parent_source) == (parent.span_id, ParentSource.CONTEXT)


def test_without_any_context_the_root_is_the_parent(recorder: SpanRecorder) -> None:
    child = recorder.start(SpanKind.MODEL, "m").start_record
    assert (child.parent_id, child.parent_source) == (recorder.root.span_id, ParentSource.FALLBACK)


def test_the_current_span_of_another_trace_is_no_parent(recorder: SpanRecorder) -> None:
    other = SpanRecorder(MemorySink(), "run-b")
    with other.as_current(other.root.span_id):
        child = recorder.start(SpanKind.MODEL, "m").start_record
    assert (child.parent_id, child.parent_source) == (recorder.root.span_id, ParentSource.FALLBACK)


def test_a_tool_call_belongs_to_the_model_span_that_announced_it(recorder: SpanRecorder) -> None:
    model = recorder.start(SpanKind.MODEL, "m")
    recorder.announce("call_1", model)
    assert recorder.tool_parent("call_1", None) == (model.span_id, ParentSource.CALL_ID)


def test_a_handle_counts_before_an_announcement(recorder: SpanRecorder) -> None:
    recorder.announce("call_1", recorder.start(SpanKind.MODEL, "m"))
    inner = recorder.start(SpanKind.AGENT, "inner")
    assert recorder.tool_parent("call_1", inner) == (inner.span_id, ParentSource.HANDLE)


def test_an_announcement_counts_in_a_plain_thread_without_context(recorder: SpanRecorder) -> None:
    model = recorder.start(SpanKind.MODEL, "m")
    recorder.announce("call_1", model)
    found: list[tuple[str, ParentSource]] = []
    thread = threading.Thread(target=lambda: found.append(recorder.tool_parent("call_1", None)))
    thread.start()
    thread.join()
    assert found == [(model.span_id, ParentSource.CALL_ID)]


def test_the_latest_announcement_of_a_repeated_call_id_counts(recorder: SpanRecorder) -> None:
    first, second = recorder.start(SpanKind.MODEL, "m"), recorder.start(SpanKind.MODEL, "m")
    recorder.announce("call_0", first)
    recorder.announce("call_0", second)
    assert recorder.tool_parent("call_0", None)[0] == second.span_id


def test_calls_of_one_reply_under_one_id_are_told_apart_by_what_is_delivered(recorder: SpanRecorder) -> None:
    model = recorder.start(SpanKind.MODEL, "m")
    for text in ('{"city": "Paris"}', '{"city": "Oslo"}'):
        recorder.announce("call_0", model, text)
    assert recorder.announced_arguments("call_0", {"city": "Paris"}) == '{"city": "Paris"}'
    assert recorder.announced_arguments("call_0", {"city": "Oslo"}) == '{"city": "Oslo"}'
    assert recorder.announced_arguments("call_0", {}) == '{"city": "Oslo"}'  # neither: the last is as good
    assert recorder.announced_arguments("call_1", {}) is None


def test_a_foreign_span_nests_below_an_allocated_tool_span(recorder: SpanRecorder, sink: MemorySink) -> None:
    tool = recorder.allocate()
    with recorder.as_current(tool):
        foreign = process_tracing().provider.get_tracer("foreign.library").start_span("query")
        foreign.set_attribute("db.system", "sqlite")
        foreign.end()
    end = sink.named("query")
    assert (end.start.parent_id, end.start.kind) == (tool, SpanKind.CHAIN)
    assert end.start.trace_id == recorder.trace_id
    assert end.attributes == {"db.system": "sqlite", v.SCOPE: "foreign.library"}


def test_a_foreign_error_keeps_its_type_and_message(recorder: SpanRecorder, sink: MemorySink) -> None:
    tracer = process_tracing().provider.get_tracer("foreign.library")
    with recorder.as_current(recorder.root.span_id):
        with pytest.raises(KeyError), tracer.start_as_current_span("query"):
            raise KeyError("gone")
    end = sink.named("query")
    assert (end.status, end.error_type, end.error_message) == (
        SpanStatus.ERROR,
        "KeyError",
        "KeyError: 'gone'",
    )
    assert [event.name for event in end.events] == ["exception"]


def test_what_foreign_code_sets_on_the_current_span_is_recorded(
    recorder: SpanRecorder, sink: MemorySink
) -> None:
    span = recorder.start(SpanKind.CHAIN, "step")
    with recorder.as_current(span.span_id):
        otel_trace.get_current_span().set_attribute("user.id", "u1")
        otel_trace.get_current_span().set_status(StatusCode.OK)
    span.end()
    assert sink.named("step").attributes == {"user.id": "u1"}


def test_traceparent_propagates(recorder: SpanRecorder) -> None:
    carrier: dict[str, str] = {}
    with recorder.as_current(recorder.root.span_id):
        TraceContextTextMapPropagator().inject(carrier)
    _, trace_id, span_id, _ = carrier["traceparent"].split("-")
    assert (trace_id, span_id) == (recorder.trace_id, recorder.root.span_id)


def test_a_span_of_no_attempt_is_counted() -> None:
    tracing = process_tracing()
    before = tracing.unrouted
    tracing.provider.get_tracer("foreign.library").start_span("stray").end()
    assert tracing.unrouted == before + 2  # its start and its end


def test_the_global_provider_stays_untouched(recorder: SpanRecorder) -> None:
    assert otel_trace.get_tracer_provider() is not process_tracing().provider


def test_two_hundred_attributes_and_events_are_all_kept(recorder: SpanRecorder, sink: MemorySink) -> None:
    tracer = process_tracing().provider.get_tracer("foreign.library")
    with recorder.as_current(recorder.root.span_id):
        foreign = tracer.start_span("many")
        for number in range(200):
            foreign.set_attribute(f"a{number}", number)
            foreign.add_event(f"e{number}")
        foreign.end()
    end = sink.named("many")
    assert end.attributes["a0"] == 0  # the SDK's default of 128 drops the oldest
    assert len(end.attributes) == 200 + 1  # and its scope
    assert len(end.events) == 200


def test_an_error_ends_a_span_with_its_class_and_message(recorder: SpanRecorder, sink: MemorySink) -> None:
    recorder.start(SpanKind.MODEL, "m").end(TimeoutError("too slow"))
    end = sink.named("m")
    assert (end.status, end.error_type, end.error_message) == (SpanStatus.ERROR, "TimeoutError", "too slow")


def test_closing_aborts_what_is_open_and_says_what_ended_it(recorder: SpanRecorder, sink: MemorySink) -> None:
    recorder.start(SpanKind.MODEL, "m")
    recorder.close(asyncio.CancelledError("deadline"))
    model, root = sink.ends
    assert (model.status, model.error_type) == (SpanStatus.ABORTED, "asyncio.exceptions.CancelledError")
    assert (root.status, root.error_type) == (SpanStatus.ABORTED, "asyncio.exceptions.CancelledError")
    assert root.attributes[v.RECORDER_LATE_SPANS] == 1


def test_closing_aborts_foreign_spans_too(recorder: SpanRecorder, sink: MemorySink) -> None:
    with recorder.as_current(recorder.root.span_id):
        foreign = process_tracing().provider.get_tracer("foreign.library").start_span("query")
    recorder.close()
    assert sink.named("query").status is SpanStatus.ABORTED
    foreign.end()
    assert len(sink.ends) == 2


def test_ending_a_span_again_is_counted_and_changes_nothing(recorder: SpanRecorder, sink: MemorySink) -> None:
    span = recorder.start(SpanKind.MODEL, "m")
    span.end()
    span.end(ValueError("late"))
    assert sink.named("m").status is SpanStatus.OK
    assert recorder.late_spans == 1


def test_a_change_to_a_span_that_has_ended_is_counted_and_stays_out_of_its_record(
    recorder: SpanRecorder, sink: MemorySink
) -> None:
    span = recorder.start(SpanKind.MODEL, "m")
    span.end()
    span.set("late", 1)
    span.set_body(v.OUTPUT, 1)
    span.event("late", {})
    end = sink.named("m")
    assert (end.attributes, end.bodies, list(end.events)) == ({}, {}, [])
    assert recorder.late_spans == 3


def test_a_span_started_after_the_end_is_counted(recorder: SpanRecorder) -> None:
    recorder.close()
    recorder.start(SpanKind.MODEL, "m").end()
    assert recorder.late_spans == 1


def test_values_without_an_exact_form_are_counted_on_the_span(
    recorder: SpanRecorder, sink: MemorySink
) -> None:
    span = recorder.start(SpanKind.MODEL, "m")
    span.set("x", float("nan"))
    span.set_body(v.INPUT, {"bytes": b"\xff"})
    span.end()
    assert sink.named("m").attributes == {"x": "NaN", v.VALUES_ALTERED: 2}


class BrokenSink(MemorySink):
    def start(self, record: SpanStart) -> None:
        if record.kind is not SpanKind.AGENT:
            raise ConnectionError("link is gone")
        super().start(record)

    def end(self, record: SpanEnd) -> None:
        if record.start.kind is not SpanKind.AGENT:
            raise ConnectionError("link is gone")
        super().end(record)

    def body(self, digest: str, content: bytes) -> None:
        raise ConnectionError("link is gone")

    async def ready(self, *, before_call: bool = False) -> None:
        raise ConnectionError("link is gone")


async def test_what_cannot_be_recorded_is_counted_and_noted_and_never_raised() -> None:
    sink = BrokenSink()
    recorder = SpanRecorder(sink, "run-a")
    span = recorder.start(SpanKind.MODEL, "m")
    span.set_body(v.INPUT, 1)
    span.set_messages(v.INPUT_MESSAGES, [{}])
    await recorder.ready()
    span.end()
    recorder.close()
    [root] = sink.ends
    assert root.attributes[v.RECORDER_FAILURES] == recorder.failures == 5
    where = [event.attributes["where"] for event in root.events]
    assert where == ["span start", "body input", "messages input.messages", "ready", "span end"]
    assert {event.attributes["error.message"] for event in root.events} == {"link is gone"}


async def test_sixteen_attempts_at_once_keep_their_spans_apart() -> None:
    sinks = [MemorySink() for _ in range(16)]

    async def attempt(sink: MemorySink, number: int) -> None:
        recorder = SpanRecorder(sink, f"run-{number}")
        with recorder.as_current(recorder.root.span_id):
            for _ in range(5):
                span = recorder.start(SpanKind.MODEL, "m")
                await asyncio.sleep(0)
                span.end()
        recorder.close()

    await asyncio.gather(*(attempt(sink, number) for number, sink in enumerate(sinks)))
    for sink in sinks:
        [root] = sink.of_kind(SpanKind.AGENT)
        assert {end.start.parent_id for end in sink.of_kind(SpanKind.MODEL)} == {root.start.span_id}
        assert {start.trace_id for start in sink.starts} == {root.start.trace_id}


def test_the_monitor_needs_no_sdk_and_nothing_but_pydantic_and_opentelemetry() -> None:
    modules = [
        "monitor.recorder",
        "monitor.records",
        "monitor.tool_spans",
        "monitor.instruments.langgraph",
        "adapters.harnesses.langgraph",
    ]
    code = (
        f"import sys; [__import__(m) for m in {modules!r}]; "
        "print([m for m in ('langchain_core', 'langchain', 'langgraph', 'openai', 'httpx', 'httpx2', "
        "'orjson', 'aiohttp', 'sqlalchemy', 'jsonschema') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


async def test_what_was_asked_is_named_by_the_start_of_the_root_span() -> None:
    sink = MemorySink()
    said = [{"role": "user", "parts": [{"type": "text", "content": "How is the weather?"}]}]
    recorder = SpanRecorder(sink, "run-a", asked=said)
    [start] = sink.starts
    assert sink.messages(start.bodies[v.INPUT]) == said
    recorder.close()
    assert sink.ends[0].bodies == start.bodies

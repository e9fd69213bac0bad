"""The comparison of records: each item dropped or changed in each record is a named difference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from atp.protocol.cards import WireNames
from atp.protocol.records import ModelCallRecord
from atp.protocol.spans import AttributeValue, SpanKind
from atp.protocol.status import StopReason
from atp.protocol.trace import CallIdSource, RecordCheck, TaskTrace, ToolCall, Usage
from monitor import vocabulary as v
from monitor.recorder import SpanRecorder
from monitor.records import Nature, compare, model_calls, rejected_calls
from tests.monitor.memory_sink import MemorySink

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def usage(*numbers: int | None) -> Usage:
    return Usage(**dict(zip(Usage.model_fields, numbers, strict=True)))


# Two model calls: the first asks for two tools, the second answers.
CALLS = [
    ModelCallRecord(
        "resp-1",
        "m",
        usage(100, 20, 30, None, 5),
        "tool_calls",
        (("call_1", "weather"), ("call_2", "clock")),
    ),
    ModelCallRecord("resp-2", "m", usage(150, 10, 100, None, 0), "stop"),
]
HARNESS = TaskTrace(
    stop_reason=StopReason.ANSWERED,
    harness_usage=usage(250, 30, 130, None, 5),
    harness_model_calls=2,
    response_ids=("resp-1", "resp-2"),
)


def executed(call_id: str, name: str, source: CallIdSource = CallIdSource.MODEL) -> ToolCall:
    return ToolCall(
        id=call_id, id_source=source, name=name, arguments={}, start=NOW, end=NOW, span_id="0" * 16
    )


BINDING = [executed("call_1", "weather"), executed("call_2", "clock")]


def check(
    endpoint: Any = CALLS, spans: Any = CALLS, binding: Any = BINDING, harness: Any = HARNESS, **more: Any
) -> RecordCheck:
    return compare(endpoint, spans, binding, harness, **more)


def test_records_that_say_the_same_agree() -> None:
    assert check() == RecordCheck(records=("endpoint", "spans", "binding", "harness"), agree=True)


CHANGES: dict[str, Callable[[ModelCallRecord], ModelCallRecord]] = {
    "model": lambda call: replace(call, model="other"),
    "finish_reason": lambda call: replace(call, finish_reason="length"),
    "input_tokens": lambda call: replace(call, usage=call.usage.model_copy(update={"input_tokens": 1})),
    "output_tokens": lambda call: replace(call, usage=call.usage.model_copy(update={"output_tokens": 1})),
    "cache_read_tokens": lambda call: replace(
        call, usage=call.usage.model_copy(update={"cache_read_tokens": None})
    ),
    "reasoning_tokens": lambda call: replace(
        call, usage=call.usage.model_copy(update={"reasoning_tokens": 7})
    ),
    "tool calls": lambda call: replace(call, tool_calls=call.tool_calls[1:]),
}


@pytest.mark.parametrize("side", ["endpoint", "spans"])
@pytest.mark.parametrize("what", CHANGES)
def test_a_changed_item_of_a_model_call_is_named_with_its_response(side: str, what: str) -> None:
    found = check(**{side: [CHANGES[what](CALLS[0]), CALLS[1]]})
    assert found.agree is False
    assert any(text.startswith(f"response_differs: response resp-1: {what} ") for text in found.differences)


@pytest.mark.parametrize("side", ["endpoint", "spans"])
@pytest.mark.parametrize("index", [0, 1])
def test_a_model_call_missing_on_one_side_is_named(side: str, index: int) -> None:
    found = check(**{side: [call for number, call in enumerate(CALLS) if number != index]})
    assert any(f"response resp-{index + 1}:" in text for text in found.differences)


@pytest.mark.parametrize("side", ["endpoint", "spans"])
def test_a_model_call_recorded_twice_is_named(side: str) -> None:
    found = check(**{side: [*CALLS, CALLS[1]]})
    assert any("resp-2: " in text and "2 times" in text for text in found.differences)


@pytest.mark.parametrize("index", [0, 1])
def test_an_announced_call_that_was_not_executed_is_named(index: int) -> None:
    found = check(binding=[BINDING[1 - index]])
    [difference] = found.differences
    call = f"call {BINDING[index].id} ({BINDING[index].name})"
    assert difference == f"call_not_executed: {call}: announced once, executed never"


def test_an_executed_call_that_was_not_announced_is_named() -> None:
    found = check(binding=[*BINDING, executed("call_9", "weather")])
    assert found.differences == ("call_not_announced: call call_9 (weather): executed once, announced never",)


def test_a_call_executed_twice_is_named() -> None:
    found = check(binding=[*BINDING, BINDING[0]])
    assert found.differences == (
        "call_not_announced: call call_1 (weather): executed 2 times, announced once",
    )


def test_a_call_of_another_tool_than_announced_is_named() -> None:
    found = check(binding=[executed("call_1", "clock"), BINDING[1]])
    assert found.differences == (
        "call_not_announced: call call_1 (clock): executed once, announced never",
        "call_not_executed: call call_1 (weather): announced once, executed never",
    )


def test_calls_without_an_id_are_matched_by_tool() -> None:
    nameless = [executed("call-0", "weather", CallIdSource.BINDING), BINDING[1]]
    assert check(binding=nameless).agree is True


def test_a_call_without_an_id_that_nobody_announced_is_named() -> None:
    found = check(binding=[*BINDING, executed("call-0", "weather", CallIdSource.BINDING)])
    assert found.differences == (
        "call_not_announced: tool weather: executed once without a call id, never announced",
    )


@pytest.mark.parametrize("field", ["input_tokens", "output_tokens", "cache_read_tokens", "reasoning_tokens"])
def test_another_sum_of_the_harness_is_named_with_both_values(field: str) -> None:
    assert HARNESS.harness_usage is not None
    other = HARNESS.model_copy(
        update={"harness_usage": HARNESS.harness_usage.model_copy(update={field: 999})}
    )
    [difference] = check(harness=other).differences
    here = getattr(HARNESS.harness_usage, field)
    assert difference == f"harness_usage_differs: usage {field}: {here} in spans, 999 by the harness"


def test_another_count_of_the_harness_is_named_with_both_values() -> None:
    other = HARNESS.model_copy(update={"harness_model_calls": 3})
    assert check(harness=other).differences == (
        "harness_calls_differ: model calls: 2 in spans, 3 by the harness",
    )


def test_other_response_ids_of_the_harness_are_named() -> None:
    other = HARNESS.model_copy(update={"response_ids": ("resp-1", "resp-3")})
    assert check(harness=other).differences == (
        "harness_responses_differ: response resp-2: in spans, not known to the harness",
        "harness_responses_differ: response resp-3: known to the harness, not in spans",
    )


def test_what_the_harness_does_not_count_is_not_compared() -> None:
    other = TaskTrace(stop_reason=StopReason.ANSWERED, harness_model_calls=2)
    assert check(harness=other).agree is True


def test_a_harness_without_counts_is_no_record() -> None:
    assert check(harness=TaskTrace(final_answer="x")).records == ("endpoint", "spans", "binding")


@pytest.mark.parametrize("only", ["endpoint", "spans", "binding", "harness"])
def test_a_single_record_agrees_with_nothing(only: str) -> None:
    absent = dict.fromkeys(["endpoint", "spans", "binding", "harness"]) | {
        only: {"binding": BINDING, "harness": HARNESS}.get(only, CALLS)
    }
    assert check(**absent) == RecordCheck(records=(only,), agree=None)


def test_binding_and_harness_alone_have_nothing_in_common() -> None:
    assert check(endpoint=None, spans=None).agree is None


def test_without_spans_the_endpoint_is_compared_with_binding_and_harness() -> None:
    found = check(
        spans=None, binding=BINDING[:1], harness=HARNESS.model_copy(update={"harness_model_calls": 1})
    )
    assert found.differences == (
        "call_not_executed: call call_2 (clock): announced once, executed never",
        "harness_calls_differ: model calls: 2 in endpoint, 1 by the harness",
    )


def test_an_answer_that_the_client_gave_up_and_tried_again_is_no_difference() -> None:
    endpoint = [replace(CALLS[0], response_id="resp-0"), *CALLS]
    spans = [replace(CALLS[0], retries=1), CALLS[1]]
    assert check(endpoint=endpoint, spans=spans).agree is True


def test_a_retry_explains_one_answer_and_no_more() -> None:
    endpoint = [replace(CALLS[0], response_id="resp-a"), replace(CALLS[0], response_id="resp-b"), *CALLS]
    spans = [replace(CALLS[0], retries=1), CALLS[1]]
    assert check(endpoint=endpoint, spans=spans).agree is False


def test_a_retry_after_an_http_error_explains_no_lost_answer() -> None:
    failed = ModelCallRecord(None, None, Usage(), http_status=500)
    endpoint = [replace(CALLS[0], response_id="resp-a"), failed, *CALLS]
    spans = [replace(CALLS[0], retries=1), CALLS[1]]
    assert check(endpoint=endpoint, spans=spans).agree is False


def test_http_errors_that_were_tried_again_are_no_difference() -> None:
    failed = ModelCallRecord(None, None, Usage(), http_status=500)
    spans = [replace(CALLS[0], retries=2), CALLS[1]]
    assert check(endpoint=[failed, failed, *CALLS], spans=spans).agree is True


def test_a_model_call_that_failed_for_the_client_may_have_been_answered() -> None:
    endpoint = [*CALLS, replace(CALLS[1], response_id="resp-3")]
    spans = [*CALLS, ModelCallRecord(None, None, Usage())]
    assert check(endpoint=endpoint, spans=spans).agree is True


def test_a_zero_for_what_the_provider_did_not_say_is_no_difference() -> None:
    spans = [replace(call, usage=call.usage.model_copy(update={"cache_write_tokens": 0})) for call in CALLS]
    assert check(spans=spans).agree is True


def test_calls_of_tools_that_belong_to_the_harness_are_no_difference() -> None:
    calls = [CALLS[0], replace(CALLS[1], tool_calls=(("call_3", "final_answer"),))]
    assert check(calls, calls, nature=Nature(owned_tools=("final_answer",))).agree is True


def test_calls_that_the_harness_refuses_are_no_difference() -> None:
    assert check(binding=BINDING[:1], rejected=("call_2",)).agree is True


def test_calls_of_the_last_reply_of_a_run_that_was_stopped_are_no_difference() -> None:
    calls = [CALLS[0], replace(CALLS[1], tool_calls=(("call_3", "weather"),))]
    assert check(calls, calls, harness=None).agree is True


def test_calls_of_the_last_reply_of_a_run_that_answered_are_a_difference() -> None:
    calls = [CALLS[0], replace(CALLS[1], tool_calls=(("call_3", "weather"),))]
    assert check(calls, calls).differences == (
        "call_not_executed: call call_3 (weather): announced once, executed never",
    )


def test_the_user_simulator_is_not_among_the_agents_calls() -> None:
    other = replace(CALLS[0], response_id="resp-u", actor="user_simulator")
    assert check([*CALLS, other], [*CALLS, other]).agree is True


def test_model_spans_become_records() -> None:
    sink = MemorySink()
    recorder = SpanRecorder(sink, "run-a")
    span = recorder.start(SpanKind.MODEL, "m")
    attributes: dict[str, AttributeValue] = {
        v.RESPONSE_ID: "resp-1",
        v.MODEL_ANSWERED: "m",
        v.FINISH_REASON: "tool_calls",
        v.USAGE_INPUT: 100,
        v.USAGE_OUTPUT: 20,
        v.USAGE_CACHE_READ: 30,
        v.USAGE_REASONING: 5,
        v.ANNOUNCED_CALL_IDS: ["call_1", "call_2"],
        v.ANNOUNCED_CALL_NAMES: ["weather", "clock"],
        v.REJECTED_CALL_IDS: ["call_2"],
    }
    for name, value in attributes.items():
        span.set(name, value)
    span.end()
    recorder.start(SpanKind.MODEL, "m").end(TimeoutError())
    recorder.close()
    assert model_calls(sink.ends) == [CALLS[0], ModelCallRecord(None, None, Usage())]
    assert rejected_calls(sink.ends) == {"call_2"}


def test_a_call_that_no_model_asked_for_is_a_difference_unless_the_harness_makes_such_calls() -> None:
    binding = [*BINDING, executed("call-7", "weather", CallIdSource.BINDING)]
    assert check(binding=binding).differences == (
        "call_not_announced: tool weather: executed once without a call id, never announced",
    )
    assert check(binding=binding, nature=Nature(calls_by_code=True)).agree is True


# The endpoint's log with what it alone sees: the requests.
REQUESTS = [replace(CALLS[0], request="a", held=()), replace(CALLS[1], request="b", held=("resp-1",))]


def test_requests_that_hold_the_replies_before_them_are_no_difference() -> None:
    assert check(endpoint=REQUESTS).agree is True


def test_a_reply_that_a_later_request_does_not_hold_is_named() -> None:
    found = check(endpoint=[REQUESTS[0], replace(REQUESTS[1], held=())])
    assert found.differences == (
        "history_lost: response resp-2: its request does not hold the earlier replies resp-1; it holds none",
    )


def test_a_pasted_transcript_is_named() -> None:
    found = check(endpoint=[REQUESTS[0], replace(REQUESTS[1], held=(), pasted=("resp-1",))])
    assert found.differences == (
        "transcript_pasted: response resp-2: its request tells of the earlier replies resp-1 in words of "
        "others; as replies of the model it holds none",
    )


def test_a_lost_reply_is_named_once() -> None:
    third = ModelCallRecord("resp-3", "m", usage(1, 1, 0, None, 0), "stop", request="c", held=("resp-2",))
    endpoint = [REQUESTS[0], replace(REQUESTS[1], held=()), third]
    found = check(endpoint=endpoint, spans=[*CALLS, third], harness=TaskTrace())
    assert [text.split(":")[0] for text in found.differences] == ["history_lost"]


def test_a_harness_that_is_free_in_what_it_holds_may_drop_replies() -> None:
    endpoint = [REQUESTS[0], replace(REQUESTS[1], held=())]
    assert check(endpoint=endpoint, nature=Nature(history="free")).agree is True


def test_a_reply_whose_calls_were_refused_may_be_left_out_where_the_card_says_so() -> None:
    endpoint = [REQUESTS[0], replace(REQUESTS[1], held=())]
    nature = Nature(history="accepted")
    assert check(endpoint=endpoint, binding=BINDING[:1], rejected=("call_2",), nature=nature).agree is True
    assert check(endpoint=endpoint, nature=nature).agree is False


def test_without_spans_nobody_knows_which_calls_were_refused() -> None:
    endpoint = [REQUESTS[0], replace(REQUESTS[1], held=())]
    assert check(endpoint=endpoint, spans=None, nature=Nature(history="accepted")).agree is True


def test_either_reply_of_a_request_that_was_tried_again_will_do() -> None:
    given_up = replace(REQUESTS[0], response_id="resp-0")
    spans = [replace(CALLS[0], retries=1), CALLS[1]]
    assert check(endpoint=[given_up, *REQUESTS], spans=spans).agree is True


def test_a_doubled_request_is_named_with_both_responses() -> None:
    twin = replace(REQUESTS[0], response_id="resp-0")
    found = check(endpoint=[twin, *REQUESTS])
    assert found.differences == (
        "request_doubled: one request was answered 2 times, as responses resp-0, resp-1; "
        "model spans tell of resp-1, and of no try that failed",
    )


def test_a_doubled_request_is_named_when_both_answers_are_in_spans() -> None:
    twin = replace(REQUESTS[1], response_id="resp-0")
    found = check(endpoint=[*REQUESTS, twin], spans=[*CALLS, replace(CALLS[1], response_id="resp-0")])
    assert any(text.startswith("request_doubled: ") for text in found.differences)


def test_agents_of_a_users_own_may_ask_the_same_twice() -> None:
    twin = replace(REQUESTS[1], response_id="resp-0")
    spans = [*CALLS, replace(CALLS[1], response_id="resp-0")]
    found = check(endpoint=[*REQUESTS, twin], spans=spans, harness=None, nature=Nature(history="free"))
    assert found.agree is True


FAILED = ModelCallRecord(None, None, Usage(), http_status=500)
COUNTED = [replace(call, retries=0) for call in CALLS]


def test_a_failed_try_that_no_span_tells_of_is_named() -> None:
    assert check(endpoint=[FAILED, *CALLS], spans=COUNTED).differences == (
        "tries_differ: 3 requests at the endpoint, 2 tries in model spans; failed at the endpoint: 500",
    )


def test_failed_tries_are_not_compared_where_the_client_does_not_count_them() -> None:
    assert check(endpoint=[FAILED, *CALLS]).agree is True


def test_a_failed_try_that_both_tell_of_is_no_difference() -> None:
    spans = [replace(COUNTED[0], retries=1, failed_statuses=(500,)), COUNTED[1]]
    assert check(endpoint=[FAILED, *CALLS], spans=spans).agree is True


def test_a_try_that_never_reached_the_endpoint_is_no_difference() -> None:
    assert check(spans=[replace(COUNTED[0], retries=1), COUNTED[1]]).agree is True


def test_a_failure_that_the_endpoint_did_not_give_is_named() -> None:
    spans = [replace(COUNTED[0], retries=1, failed_statuses=(503,)), COUNTED[1]]
    assert check(spans=spans).differences == (
        "tries_differ: HTTP status 503: 0 at the endpoint, 1 in model spans",
    )


def test_tools_of_other_names_on_the_wire_are_matched_through_the_map() -> None:
    wire = WireNames(prefix="mcp__kit__", renamed={"clock": "time"})
    calls = [
        replace(CALLS[0], tool_calls=(("call_1", "mcp__kit__weather"), ("call_2", "time"))),
        CALLS[1],
    ]
    nature = Nature(tool_names_on_wire=wire)
    assert check(calls, calls, nature=nature).agree is True
    nameless = [executed(f"call-{n}", call.name, CallIdSource.BINDING) for n, call in enumerate(BINDING)]
    assert check(calls, calls, binding=nameless, nature=nature).agree is True
    assert check(calls, calls).agree is False


WRITTEN = [replace(CALLS[0], tool_calls=(), written_calls=("weather",)), CALLS[1]]
SERVED = [replace(CALLS[0], tool_calls=()), CALLS[1]]
OWN_ID = [executed("5f0c", "weather")]


def test_a_call_that_was_read_out_of_a_text_is_the_harnesss_nature() -> None:
    found = check(SERVED, WRITTEN, OWN_ID)
    assert found.agree is True
    assert found.native_behaviour == (
        "call_from_text: call 5f0c (weather): announced by no reply; the harness read it out of the text of "
        "one and gave it an id of its own",
    )


def test_a_second_execution_of_a_call_in_a_text_is_named() -> None:
    found = check(SERVED, WRITTEN, [*OWN_ID, executed("77aa", "weather")])
    assert found.differences == ("call_not_announced: call 77aa (weather): executed once, announced never",)


def test_a_call_in_a_text_that_nobody_executed_is_named() -> None:
    assert check(SERVED, WRITTEN, []).differences == (
        "call_not_executed: tool weather: written once as text for the harness to call, never executed",
    )


def test_without_spans_a_reply_without_calls_explains_one_call_where_the_card_says_so() -> None:
    nature = Nature(calls_from_text=True)
    assert check(SERVED, None, OWN_ID, nature=nature).agree is True
    assert check(SERVED, None, OWN_ID).agree is False

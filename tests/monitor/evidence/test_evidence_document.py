"""What a document tells of a run, span by span."""

from __future__ import annotations

from typing import Any

import pytest
import rfc8785

from atp.protocol.spans import SpanKind, SpanStatus
from monitor import vocabulary as v
from monitor.evidence import evidence_document
from tests.monitor.evidence.evidence_runs import CASE, RUN, Run, say


def conversation() -> Run:
    """A question, two tools side by side, an answer."""
    run = Run()
    run.root()
    run.model("m1", 1, 2, "Let me look.", calls=[("a", "search", {}), ("b", "search", {})])
    run.tool("t1", 3, 9, "m1", "a")
    run.tool("t2", 4, 5, "m1", "b")
    run.model("m2", 10, 11, "It is 7.", read=["a", "b"])
    return run


def test_parallel_tools_are_told_as_they_began_and_ended() -> None:
    assert conversation().told() == [
        "user: Rent?",
        "assistant: Let me look.",
        "call a",
        "call b",
        "result b",
        "result a",
        "assistant: It is 7.",
    ]


def test_times_and_numbers_are_those_of_the_spans() -> None:
    document = conversation().document()
    assert (document["started_at"], document["finished_at"]) == (
        "2026-11-30T12:00:00.000000Z",
        "2026-11-30T12:01:00.000000Z",
    )
    assert [(event["event_id"], event["occurred_at"][17:19]) for event in document["events"]] == [
        ("run-one:event:0", "00"),
        ("run-one:event:1", "02"),
        ("run-one:event:2", "03"),
        ("run-one:event:3", "04"),
        ("run-one:event:4", "05"),
        ("run-one:event:5", "09"),
        ("run-one:event:6", "11"),
    ]


def test_a_call_says_where_it_comes_from_and_its_result_how_long_it_took() -> None:
    call, result = conversation().events()[2:6:3]
    assert call["data"] == {
        "call_id": "a",
        "name": "search",
        "arguments": {"q": "rent"},
        "attributes": {
            "span_id": "t1",
            "trace_id": "a" * 32,
            "parent_id": "m1",
            "call_id_source": "provider",
            "provider_call_id": "a",
        },
    }
    assert (result["data"]["result"], result["data"]["is_error"]) == ("found", False)
    assert result["data"]["attributes"]["duration_ms"] == 6000


def test_a_clock_that_is_behind_changes_no_order_and_its_own_time_is_kept() -> None:
    run = Run()
    run.root()
    run.model("m1", 1, 2, "", calls=[("a", "search", {})])
    run.tool("t1", -7, -6, "m1", "a")
    run.model("m2", 3, 4, "Done.", read=["a"])
    assert run.told() == ["user: Rent?", "call a", "result a", "assistant: Done."]
    call = run.events()[1]
    assert call["occurred_at"] == "2026-11-30T12:00:00.000000Z"
    assert call["data"]["attributes"]["observed_at"] == "2026-11-30T11:59:53.000000Z"
    assert call["data"]["attributes"]["clock_adjusted"] is True


def test_a_clock_that_is_ahead_does_not_move_a_result_behind_the_reply_that_read_it() -> None:
    run = Run()
    run.root()
    run.model("m1", 1, 2, "", calls=[("a", "search", {})])
    run.tool("t1", 22, 23, "m1", "a")
    run.model("m2", 3, 4, "", calls=[("b", "search", {})], read=["a"])
    run.tool("t2", 24, 25, "m2", "b")
    run.model("m3", 5, 6, "Done.", read=["b"])
    assert run.told() == [
        "user: Rent?",
        "call a",
        "result a",
        "call b",
        "result b",
        "assistant: Done.",
    ]


def test_an_id_that_a_provider_uses_in_every_reply_binds_by_the_newest_and_is_told_apart() -> None:
    run = Run()
    run.root()
    run.model("m1", 1, 2, calls=[("call_0", "search", {})])
    run.tool("t1", 22, 23, "m1", "call_0")
    run.model("m2", 3, 4, calls=[("call_0", "search", {})], read=["call_0"])
    run.tool("t2", 24, 25, "m2", "call_0")
    run.model("m3", 5, 6, "Done.", read=["call_0"])
    assert run.told()[1:] == [
        "call call_0#t1",
        "result call_0#t1",
        "call call_0#t2",
        "result call_0#t2",
        "assistant: Done.",
    ]


def test_a_call_without_an_id_of_the_model_is_named_by_its_span() -> None:
    run = Run()
    run.root()
    run.tool("t1", 3, 4)
    call = run.events()[1]
    assert call["data"]["call_id"] == "t1"
    assert call["data"]["attributes"]["call_id_source"] == "span_id"


def test_a_call_whose_id_the_harness_did_not_hand_on_is_that_of_the_reply_that_names_its_tool() -> None:
    run = Run()
    run.root()
    run.model("m1", 1, 2, calls=[("a", "search", {}), ("b", "search", {})])
    run.tool("t1", 2.1, 2.2)
    run.tool("t2", 2.3, 2.4)
    run.model("m2", 3, 4, "Once more.", calls=[("c", "search", {})], read=["a", "b"])
    run.tool("t3", 4.1, 4.2)
    run.model("m3", 5, 6, "No.", calls=[("d", "search", {})], attributes={v.REJECTED_CALL_IDS: ["d"]})
    told = run.told()
    assert [each for each in told if "call" in each] == ["call t1", "call t2", "call t3", "call d"]


def test_a_call_the_model_asked_for_that_never_ran_is_told_without_a_result() -> None:
    run = Run()
    run.root()
    run.model(
        "m1",
        1,
        2,
        calls=[("a", "search", {}), ("b", "fly", {"to": "moon"}), ("c", "", "{not json")],
        attributes={v.REJECTED_CALL_IDS: ["c"]},
    )
    run.tool("t1", 3, 4, "m1", "a")
    assert run.told() == ["user: Rent?", "call b", "call c", "call a", "result a"]
    unknown, refused = run.events()[1:3]
    assert (unknown["data"]["name"], unknown["data"]["arguments"]) == ("fly", {"to": "moon"})
    assert unknown["data"]["attributes"]["origin"] == "model_request"
    assert unknown["data"]["attributes"]["executed"] is False
    assert (refused["data"]["name"], refused["data"]["arguments"]) == ("(unnamed)", {})
    assert refused["data"]["attributes"]["arguments_text"] == "{not json"
    assert refused["data"]["attributes"]["rejected"] is True


@pytest.mark.parametrize(
    ("end", "status"), [(None, SpanStatus.OPEN), (5, SpanStatus.ABORTED)], ids=["open", "aborted"]
)
def test_a_tool_that_was_cut_off_is_a_call_without_a_result(end: float | None, status: SpanStatus) -> None:
    run = Run()
    run.root()
    run.tool("t1", 3, end, "root", "a", status=status)
    assert run.told() == ["user: Rent?", "call a"]
    assert run.events()[1]["data"]["attributes"]["ended"] == status


def test_a_tool_that_failed_gives_its_error() -> None:
    run = Run()
    run.root()
    run.tool("t1", 3, 4, "root", "a", error="no such street")
    result = run.events()[2]["data"]
    assert (result["is_error"], result["result"], result["status"]) == (True, None, "error")
    assert result["error"] == "no such street"


def test_a_simulated_user_is_the_user_and_nothing_else_of_it_is_shown() -> None:
    run = Run()
    run.root(asked="")
    run.model("u1", 1, 2, "Hello", attributes={v.ACTOR: "user_simulator"}, calls=[("x", "search", {})])
    run.tool("u2", 2, 3, "u1", "x")
    run.model("m1", 4, 5, "Good day")
    assert run.told() == ["user: Hello", "assistant: Good day"]


def test_a_judge_and_all_below_it_stays_out() -> None:
    run = conversation()
    plain = run.told()
    run.model("j1", 20, 21, "Score: 1", attributes={v.ACTOR: "judge"}, calls=[("j", "search", {})])
    run.tool("j2", 22, 23, "j1", "j")
    run.model("j3", 24, 25, "Better: 2", parent="j2")
    run.model("g1", 26, 27, "A grade", attributes={v.ACTOR: "grader"})
    assert run.told() == plain


def test_a_nested_agent_begins_and_ends_around_what_it_did() -> None:
    run = Run()
    run.root()
    run.span(SpanKind.AGENT, "n1", 1, 9, "root", {v.AGENT_NAME: "researcher"})
    run.model("m1", 2, 3, "Looking.", calls=[("a", "search", {})], parent="n1")
    run.tool("t1", -1, 22, "m1", "a")  # by another clock
    assert run.told() == [
        "user: Rent?",
        "agent.started",
        "assistant: Looking.",
        "call a",
        "result a",
        "agent.completed ok",
    ]
    assert run.events()[1]["data"]["attributes"]["name"] == "researcher"


def test_an_agent_that_is_called_as_a_tool_is_within_the_call() -> None:
    run = Run()
    run.root()
    run.tool("t1", 1, 9, "root", "a")
    run.span(SpanKind.AGENT, "n1", 1, 9, "t1", error="lost")
    assert run.told() == [
        "user: Rent?",
        "call a",
        "agent.started",
        "agent.completed error",
        "result a",
    ]


def test_a_skill_begins_and_ends_and_its_tools_are_calls_of_their_own() -> None:
    run = Run()
    run.root()
    run.span(SpanKind.SKILL, "s1", 1, 9, "root", {v.SKILL_NAME: "citation"})
    run.span(SpanKind.CHAIN, "c1", 2, 8, "s1")
    run.tool("t1", 3, 4, "c1", "a")
    assert run.told() == [
        "user: Rent?",
        "skill.started",
        "call a",
        "result a",
        "skill.completed ok",
    ]


def test_a_run_that_failed_ends_with_its_error() -> None:
    run = Run()
    run.root(error="the model is gone")
    assert run.told() == ["user: Rent?", "error: the model is gone"]


def test_a_run_whose_end_nobody_saw_says_so() -> None:
    run = Run()
    run.root(end=None)
    assert run.told() == ["user: Rent?", "error: the run did not come to an end: its agent span is open"]


def test_a_run_in_which_nothing_was_said_has_an_event_all_the_same() -> None:
    run = Run()
    run.root(asked="")
    assert run.told() == ["agent.completed ok"]


def test_tools_that_were_watched_and_not_called_are_a_channel_without_events() -> None:
    run = Run()
    run.root()
    run.model("m1", 1, 2, "7")
    document = run.document()
    assert document["observed_channels"] == ["messages", "tools"]
    assert not [event for event in document["events"] if event["type"].startswith("tool.")]


def test_where_no_agent_was_seen_there_is_no_document() -> None:
    run = Run()
    run.span(SpanKind.CHAIN, "c1", 0, 1, None)
    assert evidence_document(RUN, CASE, run.spans, run.bodies, rfc8785.dumps) is None
    assert evidence_document(RUN, CASE, [], {}, rfc8785.dumps) is None


def test_what_was_not_captured_is_said_and_not_invented() -> None:
    run = Run()
    run.root()
    run.tool("t1", 3, 4, "root", "a")
    run.bodies.clear()
    call, result = run.events()
    assert (call["data"]["arguments"], result["data"]["result"]) == ({}, None)
    assert call["data"]["attributes"]["missing_opt_in_fields"] == ["arguments"]
    assert result["data"]["attributes"]["missing_opt_in_fields"] == ["result"]
    assert call["data"]["attributes"]["degraded"] is True


def test_arguments_that_are_no_object_are_kept_beside_an_empty_one() -> None:
    run = Run()
    run.root()
    run.tool("t1", 3, 4, "root", "a", arguments=["rent"])
    data = run.events()[1]["data"]
    assert (data["arguments"], data["attributes"]["arguments_text"]) == ({}, ["rent"])


def test_an_attachment_is_named_and_its_content_left_out() -> None:
    run = Run()
    part = {"type": "blob", "modality": "image", "mime_type": "image/png", "content": "aGk="}
    run.span(SpanKind.AGENT, "root", 0, 1, None, bodies={v.INPUT: [{"role": "user", "parts": [part]}]})
    [event] = run.events()
    assert event["data"]["attributes"]["attachments"] == [
        {"type": "blob", "modality": "image", "mime_type": "image/png"}
    ]


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ("x" * 32_769, "x" * (32_768 - 12) + "\n[truncated]"),
        (2**53, "9007199254740992"),
        (float("nan"), "NaN"),
        ("half \ud83d", "half \ufffd"),
        ({"a": [1, 2.5, None, True]}, {"a": [1, 2.5, None, True]}),
    ],
    ids=["a long text", "a large integer", "no number", "half a surrogate pair", "plain data"],
)
def test_a_result_is_kept_in_a_form_that_has_a_digest(value: Any, kept: Any) -> None:
    run = Run()
    run.root()
    run.tool("t1", 3, 4, "root", "a", result=value)
    assert run.events()[2]["data"]["result"] == kept


def test_a_value_that_is_cut_says_so_where_it_is_cut_and_in_a_mark() -> None:
    run = Run()
    run.root()
    run.tool("t1", 3, 4, "root", "a", result=list(range(100_000)))
    _, _, result, mark = run.events()
    kept = result["data"]["result"]
    assert kept[:-1] == list(range(len(kept) - 1))
    assert kept[-1] == f"[truncated:{100_000 - len(kept) + 1} items]"
    assert result["data"]["attributes"]["truncated"] == ["result"]
    assert (mark["data"]["name"], mark["data"]["status"]) == ("evidence.truncated", "degraded")
    assert mark["data"]["attributes"]["events_with_cut_values"] == 1
    assert mark["data"]["attributes"]["dropped"] == 0


def test_what_the_monitor_failed_to_record_is_marked() -> None:
    run = Run()
    run.root(attributes={v.RECORDER_FAILURES: 3})
    assert run.told() == ["user: Rent?", "evidence.truncated degraded"]
    assert run.events()[1]["data"]["attributes"]["recorder_failures"] == 3


def test_a_message_of_the_system_is_no_question() -> None:
    run = Run()
    run.span(SpanKind.AGENT, "root", 0, 1, None, bodies={v.INPUT: [say("system", "Be brief.")]})
    assert run.told() == ["agent.completed ok"]

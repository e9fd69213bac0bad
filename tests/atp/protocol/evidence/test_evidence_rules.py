"""The negative cases N01 to N45 of a `target-evidence-v1` document, and three that are valid."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

import atp.protocol.evidence as evidence_types
from atp.protocol.evidence import MOST_BYTES, Rule, checked, problems
from tests.atp.protocol.evidence.evidence_documents import CASE, RUN, as_bytes, document, event

Change = Callable[[dict[str, Any]], object]


def put(*path: Any) -> Change:
    """Set what stands at the path to its last element."""
    *steps, key, value = path

    def change(target: Any) -> None:
        for step in steps:
            target = target[step]
        target[key] = value

    return change


def drop(*path: Any) -> Change:
    """Remove what stands at the path."""
    *steps, key = path

    def change(target: Any) -> None:
        for step in steps:
            target = target[step]
        del target[key]

    return change


def add(*events: dict[str, Any]) -> Change:
    """Append events."""
    return lambda target: target["events"].extend(events)


CALL, RESULT = ("events", 1), ("events", 2)
RESULT_EVENT = {"call_id": "call-1", "name": "search", "result": None, "is_error": False}
LATER_CALL = {"call_id": "call-2", "name": "search", "arguments": {}}
SCHEMA = Path(evidence_types.__file__).with_name("target_evidence.schema.json")
OF_THE_WHOLE = set(list(Rule)[list(Rule).index(Rule.RUN) :])
MANY = [event(index, 0, "message", role="user", text="x") for index in range(5001)]

CASES: dict[str, tuple[Change, Rule, str]] = {
    "N01": (put("schema_version", "target-evidence-v2"), Rule.SCHEMA_VERSION, "/schema_version"),
    "N02": (put("run_id", "run-other"), Rule.RUN, "/run_id"),
    "N03": (put("case_id", "case-other"), Rule.CASE, "/case_id"),
    "N04": (put("assurance_level", "L3"), Rule.ASSURANCE_LEVEL, "/assurance_level"),
    "N05": (put("missing_channels", []), Rule.KEY_UNKNOWN, "/missing_channels"),
    "N06": (put("partial", True), Rule.KEY_UNKNOWN, "/partial"),
    "N07": (drop("finished_at"), Rule.KEY_MISSING, "/finished_at"),
    "N08": (put("started_at", "2026-11-30T12:00:00"), Rule.TIME, "/started_at"),
    "N09": (put("started_at", "2026-13-30T12:00:00Z"), Rule.TIME, "/started_at"),
    "N10": (put("finished_at", "2026-11-30T11:59:59Z"), Rule.SPAN_OF_TIME, "/finished_at"),
    "N11": (put("events", []), Rule.LENGTH, "/events"),
    "N12": (put("events", MANY), Rule.LENGTH, "/events"),
    "N13": (put("observed_channels", ["messages"]), Rule.CHANNELS_REQUIRED, "/observed_channels"),
    "N14": (
        put("observed_channels", ["messages", "tools", "tools"]),
        Rule.CHANNEL_REPEATED,
        "/observed_channels",
    ),
    "N15": (
        put("observed_channels", ["messages", "tools", "state"]),
        Rule.CHANNEL,
        "/observed_channels/2",
    ),
    "N16": (
        put("observed_channels", ["message_event", "tool_call", "tool_result"]),
        Rule.CHANNEL,
        "/observed_channels/0",
    ),
    "N17": (
        lambda target: [put("sequence", each["sequence"] + 1)(each) for each in target["events"]],
        Rule.SEQUENCE,
        "/events/0/sequence",
    ),
    "N18": (put("events", 3, "sequence", 4), Rule.SEQUENCE, "/events/3/sequence"),
    "N19": (put("events", 1, "sequence", 1.0), Rule.TYPE, "/events/1/sequence"),
    "N19, true": (put("events", 1, "sequence", True), Rule.TYPE, "/events/1/sequence"),
    "N20": (put("events", 1, "event_id", f"{RUN}:event:0"), Rule.EVENT_ID, "/events/1/event_id"),
    "N21": (put("events", 1, "event_id", "run-other:event:1"), Rule.EVENT_ID, "/events/1/event_id"),
    "N22": (
        put("events", 3, "occurred_at", "2026-11-30T12:01:00Z"),
        Rule.TIME_OUTSIDE,
        "/events/3/occurred_at",
    ),
    "N23": (
        put("events", 3, "occurred_at", "2026-11-30T12:00:01Z"),
        Rule.TIME_ORDER,
        "/events/3/occurred_at",
    ),
    "N24": (put(*RESULT, "data", "call_id", "other"), Rule.RESULT_WITHOUT_CALL, "/events/2/data/call_id"),
    "N25": (
        add(
            event(4, 4, "tool.result", **{**RESULT_EVENT, "call_id": "call-2"}),
            event(5, 5, "tool.call", **LATER_CALL),
        ),
        Rule.RESULT_BEFORE_CALL,
        "/events/4/data/call_id",
    ),
    "N26": (put(*RESULT, "data", "name", "Search"), Rule.RESULT_NAME, "/events/2/data/name"),
    "N27": (add(event(4, 4, "tool.result", **RESULT_EVENT)), Rule.RESULT_REPEATED, "/events/4/data/call_id"),
    "N28": (
        add(event(4, 4, "tool.call", **{**LATER_CALL, "call_id": "call-1"})),
        Rule.CALL_REPEATED,
        "/events/4/data/call_id",
    ),
    "N29": (put(*CALL, "data", "arguments", '{"q": "rent"}'), Rule.TYPE, "/events/1/data/arguments"),
    "N30": (put(*RESULT, "data", "is_error", 0), Rule.TYPE, "/events/2/data/is_error"),
    "N31": (drop(*RESULT, "data", "result"), Rule.KEY_MISSING, "/events/2/data/result"),
    "N32": (put("events", 0, "type", "message.user"), Rule.EVENT_TYPE, "/events/0"),
    "N33": (put("events", 0, "data", "role", "developer"), Rule.ROLE, "/events/0/data/role"),
    "N34": (put("events", 0, "data", "text", ""), Rule.LENGTH, "/events/0/data/text"),
    "N35": (put("events", 0, "data", "text", "x" * 32_769), Rule.LENGTH, "/events/0/data/text"),
    "N36": (put("events", 0, "data", "model", "m"), Rule.KEY_UNKNOWN, "/events/0/data/model"),
    "N37": (
        add(event(4, 4, "file.change", path="a.txt", diff="+a")),
        Rule.CHANNEL_UNDECLARED,
        "/events/4/type",
    ),
    "N38": (drop("events", 0, "data", "attributes"), Rule.KEY_MISSING, "/events/0/data/attributes"),
    "N39": (put("events", 0, "channel", "messages"), Rule.KEY_UNKNOWN, "/events/0/channel"),
    "N40": (put("events", 0, "source", ""), Rule.LENGTH, "/events/0/source"),
    "N41": (put(*RESULT, "data", "result", float("nan")), Rule.NUMBER, ""),
}

BYTES: dict[str, tuple[bytes, Rule]] = {
    "N42": (as_bytes(document()).replace(b'"role":', b'"role": "system", "role":', 1), Rule.KEY_REPEATED),
    "N43": (as_bytes(document()).replace(b"rent", b"\xff\xfe", 1), Rule.UTF8),
    "N44": (as_bytes(document()) + b" " * MOST_BYTES, Rule.SIZE),
    "N45": (as_bytes(document()).replace(b"2.5]", b"[" * 100_000 + b"]" * 100_000 + b"]"), Rule.NESTING),
    "N45, what a parser still takes": (
        as_bytes(document()).replace(b"2.5]", b"[" * 200 + b"]" * 200 + b"]"),
        Rule.NESTING,
    ),
    "an infinity by its size": (as_bytes(document()).replace(b"2.5]", b"1e999]"), Rule.NUMBER),
    "an integer no double holds": (as_bytes(document()).replace(b"2.5]", b"9007199254740992]"), Rule.NUMBER),
    "an integer without end": (as_bytes(document()).replace(b"2.5]", b"1" * 5000 + b"]"), Rule.NUMBER),
    "half of a surrogate pair": (as_bytes(document()).replace(b"rent", b"\\ud800", 1), Rule.TEXT),
    "a byte order mark": (b"\xef\xbb\xbf" + as_bytes(document()), Rule.JSON),
    "nothing": (b"", Rule.JSON),
    "an array": (b"[]", Rule.TYPE),
}


@pytest.mark.parametrize("case", CASES)
def test_a_document_that_breaks_one_rule_is_rejected_by_that_rule_where_it_is_broken(case: str) -> None:
    change, rule, where = CASES[case]
    broken = copy.deepcopy(document())
    change(broken)
    found = checked(as_bytes(broken), RUN, CASE)
    assert not found.valid
    assert (found.problems[0].rule, found.problems[0].where) == (rule, where)


@pytest.mark.parametrize("case", sorted(CASES.keys() - {"N12"}))  # 5,001 events take a schema 8 s
def test_the_published_schema_rejects_what_is_wrong_in_its_structure_and_nothing_else(case: str) -> None:
    change, rule, _ = CASES[case]
    broken = copy.deepcopy(document())
    change(broken)
    validator = Draft202012Validator(json.loads(SCHEMA.read_text(encoding="utf-8")))
    assert validator.is_valid(document())
    # A time is text to it, 1.0 an integer, and NaN never gets as far.
    assert validator.is_valid(broken) == (rule in OF_THE_WHOLE or case in ("N08", "N09", "N19", "N41"))


@pytest.mark.parametrize("case", BYTES)
def test_bytes_that_are_no_strict_json_are_rejected_by_their_rule(case: str) -> None:
    content, rule = BYTES[case]
    assert [problem.rule for problem in checked(content, RUN, CASE).problems] == [rule]


@pytest.mark.parametrize(
    "valid",
    [
        document(),
        document(event(0, 0, "message", role="user", text="Hello"), event(1, 1, "lifecycle", name="done")),
        document(
            event(0, 0, "tool.call", call_id="a", name="search", arguments={}),
            event(1, 0, "tool.call", call_id="b", name="search", arguments={}),
            event(2, 1, "tool.result", **{**RESULT_EVENT, "call_id": "b", "is_error": True}),
        ),
    ],
    ids=["normal", "tools observed, none called", "calls without a result"],
)
def test_a_valid_document_has_no_problem(valid: dict[str, Any]) -> None:
    assert checked(as_bytes(valid), RUN, CASE).problems == ()


def test_every_problem_of_a_document_is_named() -> None:
    broken = document()
    broken["events"][2]["data"].update(name="find")
    broken["events"][3].update(sequence=7)
    assert [str(problem) for problem in problems(broken)] == [
        "sequence: /events/3/sequence: is 7 at index 3",
        "event_id: /events/3/event_id: is 'run-example-001:event:3', not 'run-example-001:event:7'",
        "result_name: /events/2/data/name: is 'find', the call's is 'search'",
    ]


def test_a_file_change_says_what_changed() -> None:
    empty = document(event(0, 0, "file.change", path="a.txt"))
    assert [problem.rule for problem in problems(empty)] == [Rule.FILE_CHANGE]


def test_files_may_be_declared() -> None:
    valid = document(event(0, 0, "file.change", path="a.txt", changes=[{"line": 1}]))
    valid["observed_channels"].append("files")
    assert problems(valid) == ()

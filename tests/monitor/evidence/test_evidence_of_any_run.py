"""Any span tree has a valid document within its bounds, the same whatever order the spans come in."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
import rfc8785
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from atp.protocol.evidence import MOST_BYTES, MOST_EVENTS
from atp.protocol.spans import SpanKind, SpanStatus
from monitor import vocabulary as v
from tests.monitor.evidence.evidence_runs import Run

HOSTILE = (
    "",
    " ",
    "a",
    "call_0",
    "call_0#s1",
    "\x00\x1b[31m",
    "\ud83d",
    "\U0001f642",
    '"}],"events":[',
    "x" * 33_000,
    "\u2028",
)
VALUES: tuple[Any, ...] = (
    None,
    {},
    {"q": "rent"},
    "text",
    [1, 2.5],
    2**70,
    10**4000,
    float("inf"),
    {"\ud83d": {"a": [[[]]]}},
    {"x" * 40_000 + "a": 1, "x" * 40_000 + "b": 2},
)


def deep(levels: int) -> Any:
    """A value of so many levels."""
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def any_run(random: Random, size: int) -> Run:
    """A tree of `size` spans of every kind below an agent: parents, times, ids and texts as they come."""
    run = Run()
    run.root(
        end=random.choice([None, 0, 60, -5]),
        asked=random.choice(HOSTILE),
        status=random.choice(list(SpanStatus)),
    )
    skew = random.choice([0, 0, 0.5, -3600, 86_400])
    called: list[str] = []
    for number in range(size):
        span_id = f"s{number}"
        parent = random.choice(["root", "gone", f"s{random.randrange(size)}", span_id])
        start = random.uniform(0, 60)
        end = random.choice([None, start, start + random.uniform(0, 9), start - 1])
        status = SpanStatus.OPEN if end is None else random.choice(list(SpanStatus)[1:])
        actor = random.choice(["agent"] * 8 + ["judge", "user_simulator", "stranger"])
        more: dict[str, Any] = {"parent": parent, "status": status}
        if random.random() < 0.2:
            more["error"] = random.choice(HOSTILE)
        kind = random.choice(list(SpanKind))
        if kind is SpanKind.MODEL:
            calls = [
                (random.choice([*HOSTILE, span_id]), random.choice(HOSTILE), random.choice(VALUES))
                for _ in range(random.randrange(4))
            ]
            called += [call[0] for call in calls]
            read = random.sample(called, min(len(called), 3))
            text = random.choice(HOSTILE)
            run.model(span_id, start, end, text, calls, read, attributes={v.ACTOR: actor}, **more)
        elif kind is SpanKind.TOOL:
            call_id = random.choice([*called, None, *HOSTILE])
            values = random.choice([*VALUES, deep(100)]), random.choice(VALUES)
            clock = start + skew, None if end is None else end + skew
            run.tool(span_id, *clock, call_id=call_id, arguments=values[0], result=values[1], **more)
        else:
            name = {v.AGENT_NAME: random.choice(HOSTILE), v.ACTOR: actor}
            run.span(kind, span_id, start, end, attributes=name, **more)
    if run.bodies and random.random() < 0.3:
        run.bodies.pop(random.choice(list(run.bodies)))
    return run


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.randoms(use_true_random=False), st.integers(0, 40))
def test_any_run_has_a_valid_document_that_is_the_same_in_any_order_of_arrival(
    random: Random, size: int
) -> None:
    run = any_run(random, size)
    content = rfc8785.dumps(run.document())
    assert len(content) <= MOST_BYTES
    shuffled = random.sample(run.spans, len(run.spans))
    assert rfc8785.dumps(run.document(shuffled)) == content


def long_run(turns: int, text: str = "Next.", skew: float = 0, result: Any = "found") -> Run:
    """Turns of a reply with one call and its result, by two clocks: three events each."""
    run = Run()
    run.root(end=turns + 1)
    for turn in range(turns):
        read = [f"c{turn - 1}"] if turn else []
        run.model(f"m{turn}", turn, turn + 0.2, text, calls=[(f"c{turn}", "search", {})], read=read)
        call = turn + 0.4 + skew, turn + 0.6 + skew
        run.tool(f"t{turn}", *call, parent=f"m{turn}", call_id=f"c{turn}", result=result)
    return run


@pytest.mark.parametrize("skew", [3600, -3600], ids=["ahead", "behind"])
def test_of_6000_events_the_beginning_and_the_end_are_kept_and_the_gap_is_marked(skew: float) -> None:
    run = long_run(2000, skew=skew)
    events = run.document()["events"]
    assert len(events) in (MOST_EVENTS, MOST_EVENTS - 1)  # the tail may begin with a result of the gap
    [mark] = [event for event in events if event["data"].get("name") == "evidence.truncated"]
    assert events.index(mark) == 2500
    told = mark["data"]["attributes"]
    assert (told["total"], told["emitted"]) == (6001, len(events) - 1)
    assert told["dropped"] == 6001 - told["emitted"] == sum(told["dropped_by_type"].values())
    assert len(told["full_sha256"]) == 64
    texts = [event["data"].get("call_id") for event in events if event["type"] == "tool.call"]
    assert texts == sorted(texts, key=lambda name: int(name[1:]))
    assert (texts[0], texts[-1]) == ("c0", "c1999")


def test_the_document_of_6000_events_does_not_depend_on_the_order_of_arrival() -> None:
    run = long_run(2000, skew=3600)
    assert run.document(run.spans[::-1]) == run.document()


def test_a_call_whose_result_fell_into_the_gap_says_so() -> None:
    run = Run()
    run.root(end=9000)
    for number in range(2499):
        run.tool(f"t{number}", 1 + number / 1000, 4000 + number / 1000, call_id=f"c{number}")
    for number in range(200):
        run.model(f"m{number}", 5000, 5001 + number, "Still waiting.")
    events = run.document()["events"]
    calls = [event for event in events if event["type"] == "tool.call"]
    results = [event for event in events if event["type"] == "tool.result"]
    dropped = [call for call in calls if call["data"]["attributes"].get("result_dropped")]
    assert len(calls) == 2499
    assert len(results) == 2499 - 200  # the 200 messages are the end
    assert len(dropped) == 200


def test_a_document_that_would_have_too_many_bytes_is_cut_in_the_same_way() -> None:
    run = long_run(60, text="\x01" * 30_000)  # six bytes each as JSON: 11 MB
    document = run.document()
    assert len(rfc8785.dumps(document)) <= MOST_BYTES
    [mark] = [each for each in document["events"] if each["data"].get("name") == "evidence.truncated"]
    assert mark["data"]["attributes"]["dropped"] > 100
    assert document["events"][-1]["data"]["call_id"] == "c59"


def test_a_thousand_agents_within_each_other_are_told() -> None:
    run = Run()
    run.root()
    for depth in range(1000):
        parent = f"n{depth - 1}" if depth else "root"
        run.span(SpanKind.AGENT, f"n{depth}", depth / 1000, 50 - depth / 1000, parent)
    assert len(run.events()) == 2001

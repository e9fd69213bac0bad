"""Fewer attempts at once while an endpoint answers 429, more again while it answers."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from atp.engine.pressure import Gate
from atp.protocol.spans import ParentSource, SpanEnd, SpanEvent, SpanKind, SpanStart, SpanStatus
from atp.protocol.status import retry_seconds
from monitor import vocabulary as v
from tests.atp.engine.experiments import Lab
from tests.foreign_endpoint import ForeignEndpoint, ForeignReply, ForeignRequest, completion, replying


def call(*, status: int | None = None, retry_after: float | None = None, began: int | None = None) -> SpanEnd:
    """A model call that was answered, after a failed try if `status` says so."""
    now = time.time_ns()
    start = SpanStart(
        "run-a",
        "0" * 31 + "1",
        "0" * 15 + "2",
        None,
        ParentSource.ROOT,
        SpanKind.MODEL,
        "m",
        now if began is None else began,
        {},
        {},
    )
    tries = [] if status is None else [SpanEvent(v.FAILED_TRY, now, {"http.status_code": status})]
    if retry_after is not None:
        tries = [SpanEvent(v.FAILED_TRY, now, {**tries[0].attributes, "retry_after": retry_after})]
    return SpanEnd(start, now, SpanStatus.OK, {v.RESPONSE_ID: "r"}, {}, None, None, tuple(tries))


async def test_it_lets_in_as_many_as_were_asked_for() -> None:
    gate = Gate(64)
    assert [await gate.enter() for _ in range(64)] == [True] * 64
    assert not gate.is_open


async def test_a_429_halves_the_number_and_never_to_none() -> None:
    gate = Gate(8)
    seen = [gate.limit]
    for _ in range(5):
        gate.heard(call(status=429))
        seen.append(gate.limit)
    assert seen == [8, 4, 2, 1, 1, 1]


async def test_the_429s_of_calls_that_were_under_way_together_count_once() -> None:
    gate = Gate(8)
    began = time.time_ns()
    for _ in range(8):
        gate.heard(call(status=429, began=began))
    assert gate.limit == 4


@pytest.mark.parametrize("status", [500, 502, 503, 401, 400])
async def test_other_errors_are_left_to_retries(status: int) -> None:
    gate = Gate(8)
    gate.heard(call(status=status))
    assert gate.limit == 8


async def test_as_many_answers_as_it_allows_add_one_up_to_what_was_asked_for() -> None:
    gate = Gate(4)
    gate.heard(call(status=429))
    gate.heard(call(status=429))
    assert gate.limit == 1
    grown = []
    for _ in range(20):
        gate.heard(call())
        grown.append(gate.limit)
    # 1/1; 1/2 twice; then 1/3 and what follows, each a little less than a third: four of them.
    assert grown[:3] == [2, 2, 2]
    assert sorted(grown) == grown
    assert grown[-1] == 4


async def test_nobody_passes_before_the_time_that_the_provider_asked_for_is_over() -> None:
    gate = Gate(2)
    began = time.monotonic()
    gate.heard(call(status=429, retry_after=0.3))
    assert not gate.is_open
    assert await gate.enter()
    assert time.monotonic() - began >= 0.3


async def test_who_waits_passes_when_another_leaves() -> None:
    gate = Gate(1)
    await gate.enter()
    waiting = asyncio.create_task(gate.enter())
    await asyncio.sleep(0)
    assert not waiting.done()
    gate.leave()
    assert await waiting


async def test_a_shut_gate_sends_away_those_who_wait_and_those_who_come() -> None:
    gate = Gate(1)
    await gate.enter()
    waiting = asyncio.create_task(gate.enter())
    await asyncio.sleep(0)
    gate.shut()
    assert (await waiting, await gate.enter()) == (False, False)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("7", 7.0), (" 2.5 ", 2.5), ("0", 0.0), ("Fri, 31 Dec 1999 23:59:59 GMT", 0.0), ("soon", None)],
)
def test_retry_after_is_seconds_or_a_date(value: str, seconds: float | None) -> None:
    assert retry_seconds(value) == seconds  # RFC 9110, 10.2.3; a date that has passed asks for nothing


async def test_an_endpoint_that_bears_four_at_once_gets_all_attempts_answered_and_fewer_at_once(
    lab: Lab, foreign_endpoint: ForeignEndpoint, tmp_path: Path
) -> None:
    lock = threading.Lock()
    taken: list[float] = []
    outcomes: Counter[int] = Counter()

    def respond(request: ForeignRequest, number: int) -> ForeignReply:
        # A rate limit: four requests in any 0.2 s, and what is above is told to come back.
        with lock:
            now = time.monotonic()
            taken[:] = [moment for moment in taken if now - moment < 0.2]
            if len(taken) >= 4:
                outcomes[429] += 1
                return ForeignReply(status=429, body={"error": {}}, headers={"retry-after": "0.2"})
            taken.append(now)
            outcomes[200] += 1
            return replying(completion(f"r{number}", text="done"))

    foreign_endpoint.respond = respond
    outcome = await lab.run(
        models=["openai/m"],
        base_url=foreign_endpoint.base_url,
        benchmark_options={"tasks": "16"},
        tasks=tuple(f"ledger-{number:03d}" for number in range(0, 16, 2)),
        concurrency=8,
        retries=8,
    )
    slots = {attempt["slot"] for attempt in outcome["attempts"] if attempt["status"] == "completed"}
    assert len(slots) == 8
    # Eight at once get four answers and four refusals; after that four at most are let in at once.
    assert outcomes[200] == 8
    assert 4 <= outcomes[429] <= 8

"""The deadline: a clock that counts the agent's time, not a user's and not what provider errors cost."""

from __future__ import annotations

import asyncio
import time

import pytest

from atp.engine import deadline as deadline_module
from atp.engine.deadline import Deadline, seconds_lost
from atp.protocol.spans import ParentSource, SpanEnd, SpanEvent, SpanKind, SpanStart, SpanStatus
from monitor.vocabulary import FAILED_TRY, REPEATED_TRY
from tests.atp.engine.experiments import until

S = 1_000_000_000


def model_span(
    start: float, end: float, status: SpanStatus = SpanStatus.OK, error: str | None = None, **events: float
) -> SpanEnd:
    """A model span, by seconds; `failed` and `repeated` are events within it."""
    names = {"failed": FAILED_TRY, "repeated": REPEATED_TRY}
    begun = SpanStart(
        "run-1", "0" * 32, "0" * 16, None, ParentSource.ROOT, SpanKind.MODEL, "m", round(start * S)
    )
    happened = [SpanEvent(names[name], round(at * S)) for name, at in events.items()]
    return SpanEnd(begun, round(end * S), status, {}, {}, error, None, happened)


OK, ERROR, ABORTED = SpanStatus.OK, SpanStatus.ERROR, SpanStatus.ABORTED


@pytest.mark.parametrize(
    ("spans", "seconds"),
    [
        ([], 0),
        ([model_span(1, 4)], 0),
        ([model_span(1, 9, failed=2, repeated=6)], 5),  # from the start to the try that was answered
        ([model_span(1, 9, ERROR, "openai.APITimeoutError")], 8),
        ([model_span(1, 9, ABORTED, failed=2)], 8),  # cut off while it waited
        ([model_span(1, 9, ABORTED)], 0),  # cut off while the model may have thought
        ([model_span(1, 9, ERROR, "asyncio.exceptions.CancelledError")], 0),
        ([model_span(1, 9, ERROR, "CancelledError", failed=2)], 8),
        ([model_span(1, 5, ERROR), model_span(3, 7, ERROR)], 6),  # at once: counted once
        ([model_span(1, 99, ERROR)], 49),  # up to the moment that is asked about
        ([model_span(60, 99, ERROR)], 0),
    ],
)
def test_time_is_lost_to_tries_that_failed(spans: list[SpanEnd], seconds: float) -> None:
    assert seconds_lost(spans, 50 * S) == seconds


async def test_lost_time_puts_the_deadline_off() -> None:
    passed = asyncio.Event()
    deadline = Deadline(0.2, passed.set)
    deadline.start()
    begun = time.time()
    deadline.add(model_span(begun, begun + 9, repeated=begun + 0.3))
    await asyncio.wait_for(passed.wait(), 30)
    deadline.end()
    assert deadline.elapsed is not None
    assert deadline.elapsed >= 0.49
    assert not deadline.eaten


async def test_a_deadline_is_eaten_by_what_becomes_known_after_it() -> None:
    passed = asyncio.Event()
    deadline = Deadline(0.05, passed.set)
    begun = time.time()
    deadline.start()
    await asyncio.wait_for(passed.wait(), 30)
    before = deadline.eaten
    deadline.add(model_span(begun + 0.01, begun + 9, ABORTED, failed=begun + 0.02))
    deadline.end()
    assert (before, deadline.eaten) == (False, True)


async def test_without_a_deadline_time_is_only_measured() -> None:
    deadline = Deadline(None, lambda: None)
    before = deadline.elapsed
    deadline.start()
    deadline.end()
    assert (before, deadline.elapsed is None, deadline.lost, deadline.eaten) == (None, False, 0, False)


async def test_it_passes_once() -> None:
    passed: list[bool] = []
    Deadline(0.01, lambda: passed.append(True)).start()
    await until(lambda: passed)
    assert passed == [True]


async def test_held_it_does_not_pass_and_runs_on_afterwards() -> None:
    passed: list[bool] = []
    deadline = Deadline(0.05, lambda: passed.append(True))
    deadline.start()
    with deadline.held():
        await asyncio.sleep(0.2)
        assert passed == []
    await until(lambda: passed)


async def test_one_that_does_not_run_is_not_started_by_being_held() -> None:
    passed: list[bool] = []
    deadline = Deadline(0.0, lambda: passed.append(True))
    with deadline.held():
        pass
    await asyncio.sleep(0.02)
    assert passed == []


async def test_ended_while_held_it_never_runs_again() -> None:
    passed: list[bool] = []
    deadline = Deadline(0.01, lambda: passed.append(True))
    deadline.start()
    with deadline.held():
        deadline.end()
    await asyncio.sleep(0.05)
    assert passed == []


async def test_while_the_process_itself_stands_still_the_clock_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadline_module, "STOOD_STILL", 0.5)
    passed = asyncio.Event()
    deadline = Deadline(2.0, passed.set)
    deadline.start()
    time.sleep(3.5)  # as a stopped process: no look at the time is taken
    for _ in range(5):
        await asyncio.sleep(0)
    assert not passed.is_set()
    await passed.wait()
    assert not deadline.eaten
    deadline.end()

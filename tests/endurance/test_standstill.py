"""The engine stands still while its worker goes on: nothing grows without bound, and nothing is lost."""

from __future__ import annotations

import time
from pathlib import Path

import psutil
import pytest

from atp.protocol.spans import SpanKind, SpanStatus
from atp.protocol.status import Status
from tests.endurance.engine_process import HEARTBEAT_TIMEOUT, Bench, bench, until
from tests.endurance.journal_replay import check_journal

SPANS = 6000
SCRIPT = "steps:\n- text: done\n"
KEPT = 48 << 20
"""Bytes a worker may grow by; all of the spans together have more than twice as many."""


@pytest.mark.parametrize(
    "seconds", [HEARTBEAT_TIMEOUT + 1.0, pytest.param(20.0, marks=pytest.mark.nightly)], ids=["short", "long"]
)
def test_a_worker_that_floods_spans_while_its_engine_stands_still_keeps_few_and_all_arrive(
    seconds: float, tmp_path: Path
) -> None:
    with bench(tmp_path) as at:
        engine = at.run(SCRIPT, ["ledger-000"], "-o", f"harness.flood={SPANS}")
        until(lambda: _stored(at) > 0 or not engine.alive)
        engine.stop()
        stored = _stored(at)
        [worker] = [p for p in psutil.Process(engine.process.pid).children() if "atp.worker" in p.cmdline()]
        before = worker.memory_info().rss
        most = before
        until_then = time.monotonic() + seconds
        while time.monotonic() < until_then:
            time.sleep(0.1)
            most = max(most, worker.memory_info().rss)
        assert stored < SPANS / 2  # most of the flood was still to come
        assert most - before < KEPT
        engine.go_on()
        code, said = engine.end()
        assert code == 0, said
        [attempt] = at.attempts()
        assert attempt.status is Status.COMPLETED  # the worker was not taken for a hung one
        assert _stored(at) == SPANS
        assert check_journal(tmp_path / "atp.db") > 0


def _stored(at: Bench) -> int:
    """Spans of the flood that are in the database, ended."""
    with at.opened() as store:
        if store is None or not store.experiments():
            return 0
        return sum(
            span.kind is SpanKind.CHAIN and span.status is SpanStatus.OK
            for attempt in store.attempts(store.experiment().id)
            for span in store.spans(attempt.run_id)
        )

"""Two engines: on one experiment one of them works, on one file both do."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

from atp.models.scripted.wire_log import read_wire_log
from atp.protocol.spans import SpanStatus
from atp.protocol.status import Status
from tests.endurance.engine_process import LEASE, Bench, bench, until
from tests.endurance.journal_replay import check_journal

SCRIPT = """
steps:
- tool_calls: [{name: wait, arguments: {seconds: 1}}]
- tool_calls: [{name: balance, arguments: {account: acc-1}}]
- text: done
"""
TASKS = ("ledger-000", "ledger-002", "ledger-004", "ledger-006")


def test_of_two_resumes_at_once_one_goes_on_and_the_other_is_refused_by_name(tmp_path: Path) -> None:
    with bench(tmp_path) as at:
        first = at.run(SCRIPT, TASKS, "-c", "2")
        until(lambda: len(at.in_tool()) == 2 or not first.alive)
        first.process.kill()
        first.end()
        resumes = [at.start("resume", "--retries", "0", "-c", "2") for _ in range(2)]
        ends = [resume.end() for resume in resumes]
        assert sorted(code for code, _ in ends) == [0, 3], ends
        [refusal] = [said for code, said in ends if code == 3]
        assert "is being run by" in refusal
        assert "wait until its lease expires" in refusal
        attempts = at.attempts()
        assert Counter(attempt.status for attempt in attempts) == {
            Status.INTERRUPTED: 2,
            Status.COMPLETED: 4,
        }
        assert {attempt.slot.task_id for attempt in attempts if attempt.grade} == set(TASKS)
        assert check_journal(tmp_path / "atp.db") > 0


def test_an_engine_that_stood_still_until_another_took_over_writes_nothing_more(tmp_path: Path) -> None:
    with bench(tmp_path) as at:
        first = at.run(SCRIPT, TASKS, "-c", "2")
        until(lambda: len(at.in_tool()) == 2 or not first.alive)
        first.stop()
        held_up = set(at.in_tool())
        time.sleep(LEASE)  # which nobody renews
        second = at.start("resume", "--retries", "0", "-c", "2")
        # It is at work when the first goes on where it stood.
        until(lambda: _interrupted(at) or not second.alive)
        first.go_on()
        code, said = first.end()
        assert code == 1, said
        assert "is no longer run by" in said
        assert "writes nothing more" in said
        code, said = second.end()
        assert code == 0, said
        attempts = {attempt.run_id: attempt for attempt in at.attempts()}
        assert Counter(attempt.status for attempt in attempts.values()) == {
            Status.INTERRUPTED: 2,
            Status.COMPLETED: 4,
        }
        for run_id in held_up:
            trace = attempts[run_id].trace
            assert trace is not None and trace.status is Status.INTERRUPTED
            with at.opened() as store:
                assert store is not None
                # The tool was called, and what came of it afterwards was not written.
                assert [span.status for span in store.spans(run_id) if span.end_ns is not None][-1:] == [
                    SpanStatus.ABORTED
                ]
                assert SpanStatus.OPEN not in {span.status for span in store.spans(run_id)}
        # The agents of the first engine asked their model nothing after the tool.
        asked = Counter(
            line["session"]
            for log in (tmp_path / "home" / "logs").glob("*/wire.jsonl")
            for line in read_wire_log(log)
        )
        assert {asked[run_id] for run_id in held_up} == {1}
        assert check_journal(tmp_path / "atp.db") > 0


def test_two_experiments_at_once_in_one_file_are_both_completed(tmp_path: Path) -> None:
    with bench(tmp_path) as at:
        both = [at.run(SCRIPT, TASKS, "-c", "2", "--name", name) for name in ("one", "two")]
        ends = [engine.end() for engine in both]
        assert [code for code, _ in ends] == [0, 0], ends
        with at.opened() as store:
            assert store is not None
            for name in ("one", "two"):
                attempts = store.attempts(store.experiment(name).id)
                assert Counter(attempt.status for attempt in attempts) == {Status.COMPLETED: 4}
                assert all(attempt.grade is not None for attempt in attempts)
        assert check_journal(tmp_path / "atp.db") > 0


def _interrupted(at: Bench) -> list[str]:
    return [attempt.run_id for attempt in at.attempts() if attempt.status is Status.INTERRUPTED]

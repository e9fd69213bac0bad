"""The disk is full, or another process holds the database: it is told, and a resume finishes the rest."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections import Counter
from pathlib import Path

from atp.protocol.spans import SpanStatus
from atp.protocol.status import Status
from atp.sandbox.interpreter import bwrap_binary
from atp.store.store import Store
from tests.endurance.engine_process import bench, until
from tests.endurance.journal_replay import check_journal

DISK = 24_000_000
"""Bytes of the disk; what is in the way leaves room for some attempts, not for all."""
IN_THE_WAY = 20_500_000
FULL_THEN_ROOM = """
atp() { "$PYTHON" -m atp.cli "$@" --db sqlite:////mnt/atp.db; }
head -c $IN_THE_WAY /dev/zero > /mnt/in-the-way
atp run -b ledger -H thinloop -m scripted/oracle -n 40 -o benchmark.tasks=40 -c 8; echo "ended $?"
cp /mnt/atp.db* "$KEPT/full"
rm /mnt/in-the-way
atp resume -c 8; echo "ended $?"
cp /mnt/atp.db* "$KEPT/room"
"""
WAITS = """
steps:
- tool_calls: [{name: wait, arguments: {seconds: 1}}]
- text: done
"""


def test_on_a_full_disk_the_run_ends_and_says_so_and_with_room_made_a_resume_finishes(tmp_path: Path) -> None:
    for name in ("full", "room"):
        (tmp_path / name).mkdir()
    done = subprocess.run(
        [str(bwrap_binary(False)), "--dev-bind", "/", "/", "--size", str(DISK), "--tmpfs", "/mnt"]
        + ["bash", "-c", FULL_THEN_ROOM],
        env=os.environ
        | {"PYTHON": sys.executable, "KEPT": str(tmp_path), "IN_THE_WAY": str(IN_THE_WAY)}
        | {"ATP_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        check=False,
    )
    said = done.stdout + done.stderr
    assert done.stdout.count("ended 1") == 1, said
    assert "/mnt/atp.db cannot grow, the disk is full" in done.stderr
    assert "make room, then `atp resume` goes on" in done.stderr
    assert "Traceback" not in done.stderr
    assert "ended 0" in done.stdout, said
    before, after = tmp_path / "full" / "atp.db", tmp_path / "room" / "atp.db"
    for database in (before, after):
        assert check_journal(database) > 0
    kept = {run_id for run_id, status in _statuses(before).items() if status is Status.COMPLETED}
    statuses = _statuses(after)
    assert kept <= statuses.keys()
    assert Counter(statuses.values())[Status.COMPLETED] == 40
    assert set(statuses.values()) <= {Status.COMPLETED, Status.INTERRUPTED, Status.INFRA_ERROR}


def test_a_database_that_another_process_holds_too_long_ends_the_run_which_resumes(tmp_path: Path) -> None:
    with bench(tmp_path) as at:
        first = at.run(WAITS, ["ledger-000", "ledger-002"])
        until(lambda: len(at.in_tool()) == 2 or not first.alive)
        other = sqlite3.connect(tmp_path / "atp.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        code, said = first.end()
        other.close()
        assert code == 1, said
        assert f"{tmp_path / 'atp.db'} was locked by another process for more than 1 s" in said
        assert "Traceback" not in said
        assert [attempt.status for attempt in at.attempts()] == [None, None]  # as they were acknowledged
        code, said = at.start("resume", "--retries", "0").end()
        assert code == 0, said
        assert Counter(attempt.status for attempt in at.attempts()) == {
            Status.INTERRUPTED: 2,
            Status.COMPLETED: 2,
        }
        assert check_journal(tmp_path / "atp.db") > 0


def _statuses(database: Path) -> dict[str, Status | None]:
    with Store.open(f"sqlite:///{database}", readonly=True) as store:
        attempts = store.attempts(store.experiment().id)
        for attempt in attempts:
            if attempt.status is not None:
                assert SpanStatus.OPEN not in {span.status for span in store.spans(attempt.run_id)}
        return {attempt.run_id: attempt.status for attempt in attempts}

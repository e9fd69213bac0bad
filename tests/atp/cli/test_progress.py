"""What a run says of what goes wrong: a bounded number of lines, and a count of the rest."""

from __future__ import annotations

from pathlib import Path

from atp.cli.progress import SHOWN_PROBLEMS
from tests.atp.cli.test_run_command import PAIR, Shell

SCRIPT = """\
tasks:
  - match: "*[02468]"
    steps: [{text: never, faults: [{status: 401, code: invalid_api_key, times: always}]}]
  - match: "*"
    steps: [{text: never, faults: [{status: 503, times: always}]}]
"""


def storm(folder: Path, *options: str) -> list[str]:
    """What 60 failing attempts write to standard error: 20 slots get 401, once; 20 get 503, twice."""
    (folder / "storm.yaml").write_text(SCRIPT, encoding="utf-8")
    many = ("-o", "benchmark.tasks=40", "--all", "--retries", "1", "-c", "16")
    code, _, err = Shell(folder)("run", *PAIR, "-m", "scripted/file:storm.yaml", *many, *options)
    assert code == 1, err
    return err.splitlines()


def test_sixty_failing_attempts_are_told_in_twenty_lines_and_a_count(tmp_path: Path) -> None:
    *told, rest = [line for line in storm(tmp_path) if "infra_error" in line]
    assert len(told) == SHOWN_PROBLEMS
    assert all(line.startswith("ledger-") for line in told)
    assert rest == f"{60 - SHOWN_PROBLEMS} more problems (40 infra_error); `atp results` has them all"


def test_a_quiet_run_says_nothing_of_single_attempts(tmp_path: Path) -> None:
    assert [line for line in storm(tmp_path, "-q") if "infra_error" in line] == []

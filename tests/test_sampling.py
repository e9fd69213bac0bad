"""The share of sampled tests that a run takes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TESTS = """
import pytest

@pytest.mark.sampled(2)
@pytest.mark.parametrize("case", range(20))
def test_of_many(case):
    pass

@pytest.mark.parametrize(
    "case", [1, *(pytest.param(each, marks=pytest.mark.sampled(1)) for each in range(2, 9))]
)
def test_one_of_which_always_runs(case):
    pass
"""


def run(folder: Path, seed: str, share: str = "") -> tuple[set[str], str]:
    """Ids of the cases that ran, and what was printed."""
    (folder / "test_cases.py").write_text(TESTS, encoding="utf-8")
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-v", "-p", "tests.sampling", "-p", "no:cacheprovider", str(folder)],
        env={"PYTHONPATH": str(ROOT), "ATP_SAMPLE_SEED": seed, "ATP_SAMPLE": share, "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
        cwd=folder,
    ).stdout
    passed = [line for line in ran.splitlines() if "PASSED" in line]
    return {line.split()[0].partition("::")[2] for line in passed}, ran


def test_a_seed_says_which_and_prints_itself(tmp_path: Path) -> None:
    first, printed = run(tmp_path, "1")
    assert sum(case.startswith("test_of_many") for case in first) == 2
    assert "test_one_of_which_always_runs[1]" in first
    assert len(first) == 2 + 2
    assert "ATP_SAMPLE_SEED=1" in printed
    assert run(tmp_path, "1")[0] == first
    # Of the 190 pairs of twenty cases seeds 2 and 3 choose others.
    assert any(run(tmp_path, str(seed))[0] != first for seed in range(2, 4))


def test_all_of_them_run_when_told_to(tmp_path: Path) -> None:
    everything, printed = run(tmp_path, "1", "all")
    assert len(everything) == 20 + 8
    assert "sampled tests: all of them" in printed

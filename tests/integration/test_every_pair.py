"""Every benchmark that needs no network with every harness, in one command."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from scripts.harnesses_page import HARNESSES

pytestmark = pytest.mark.integration

BENCHMARKS = ("humaneval", "tau3-airline", "agentdojo")
ITEMS = 5
NOTHING_TO_DO = {"humaneval": 0.0, "tau3-airline": 0.6, "agentdojo": 0.2}
"""What a model that does nothing scores on the five items that the default seed takes. By the official rules
a customer of τ³ who is to be refused is served by doing nothing, and so are five of AgentDojo's 97 users
(`docs/tau3-airline.md`, `docs/agentdojo.md`)."""


def atp(*words: str, cwd: Path | None = None) -> str:
    """Standard output of a command that has to succeed."""
    done = subprocess.run(
        [sys.executable, "-m", "atp.cli", *words],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the command says."""
    for name in (*HARNESSES, "agentdojo"):
        atp("env", "create", name)
    for name in ("humaneval", "tau3-airline"):
        atp("data", "get", name)
    folder = tmp_path_factory.mktemp("every-pair")
    named = [
        *(text for name in BENCHMARKS for text in ("-b", name)),
        *(text for name in HARNESSES for text in ("-H", name)),
        *("-m", "scripted/oracle", "-m", "scripted/noop", "-n", str(ITEMS)),
    ]
    done = atp("run", *named, "--json", cwd=folder)
    said: dict[str, Any] = json.loads(done)
    return said


def test_the_oracle_solves_all_and_doing_nothing_gives_the_floor(result: dict[str, Any]) -> None:
    means = {(cell["benchmark"], cell["harness"], cell["model"]): cell["mean"] for cell in result["cells"]}
    assert means == {
        (benchmark, harness, model): 1.0 if model == "scripted/oracle" else NOTHING_TO_DO[benchmark]
        for benchmark, harness, model in product(BENCHMARKS, HARNESSES, ("scripted/oracle", "scripted/noop"))
    }


def test_the_four_records_of_each_attempt_agree(result: dict[str, Any]) -> None:
    attempts = result["attempts"]
    assert len(attempts) == len(BENCHMARKS) * len(HARNESSES) * 2 * ITEMS
    for attempt in attempts:
        checks = attempt["checks"]
        assert checks["records"] == ["endpoint", "spans", "binding", "harness"], attempt["run_id"]
        assert checks["agree"] is True, (attempt["run_id"], checks["differences"])

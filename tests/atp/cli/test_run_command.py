"""`atp run`, `resume`, `results` and `trace` as other programs see them: keys, exit codes, streams."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest

CELL_KEYS = {
    "benchmark", "harness", "model", "simulated", "mixed", "scheduled", "graded", "missing",
    "missing_by_reason", "mean", "bounds", "ci95", "interval", "statuses", "turns", "usage", "cost",
    "elapsed",
}  # fmt: skip
ATTEMPT_KEYS = {
    "run_id", "slot", "try", "task_id", "repeat", "benchmark", "harness", "model", "status", "stop_reason",
    "score", "score_reason", "turns", "tool_calls", "final_answer", "usage", "cost", "elapsed", "trace_id",
    "checks", "native", "error",
}  # fmt: skip
SPAN_KEYS = {"span_id", "parent_id", "name", "kind", "start", "end", "status", "attributes", "events"}
PAIR = ("-b", "ledger", "-H", "thinloop")


class Shell:
    """Runs `atp` in a folder of its own, as a person would."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def start(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "atp.cli", *arguments],
            cwd=self.folder,
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __call__(self, *arguments: str, **environment: str) -> tuple[int, str, str]:
        process = self.start(*arguments, **environment)
        out, err = process.communicate(timeout=120)
        return process.returncode, out, err

    def json(self, *arguments: str, code: int = 0) -> dict[str, Any]:
        got, out, err = self(*arguments, "--json")
        assert got == code, err
        document: dict[str, Any] = json.loads(out)
        return document


@pytest.fixture
def atp(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def test_the_json_of_a_run_has_the_promised_keys_and_nothing_else_is_on_standard_output(atp: Shell) -> None:
    outcome = atp.json("run", *PAIR, "-m", "scripted/oracle", "-n", "2")
    assert set(outcome) == {"experiment", "cells", "attempts"}
    assert CELL_KEYS <= set(outcome["cells"][0])
    assert all(set(attempt) >= ATTEMPT_KEYS for attempt in outcome["attempts"])
    assert set(outcome["attempts"][0]["checks"]) >= {"records", "agree", "differences"}
    assert set(outcome["attempts"][0]["tool_calls"][0]) == {
        "id", "name", "arguments", "result", "error", "start", "end",
    }  # fmt: skip
    assert atp.json("results") == outcome
    assert atp.json("results", outcome["experiment"]) == outcome


def test_the_trace_of_a_run_has_the_promised_keys_and_its_contents(atp: Shell) -> None:
    outcome = atp.json("run", *PAIR, "-m", "scripted/oracle", "--task", "ledger-000")
    [attempt] = outcome["attempts"]
    trace = atp.json("trace", attempt["run_id"])
    assert set(trace) == {"run_id", "trace_id", "status", "spans"}
    assert all(set(span) >= SPAN_KEYS for span in trace["spans"])
    assert {span["kind"] for span in trace["spans"]} == {"agent", "model", "tool"}
    arguments = [span["attributes"]["tool.arguments"] for span in trace["spans"] if span["kind"] == "tool"]
    assert arguments == [call["arguments"] for call in attempt["tool_calls"]]

    code, out, _ = atp("trace", attempt["run_id"])
    assert code == 0
    assert max(map(len, out.splitlines())) <= 80
    assert "asks for open_account(" in out
    assert out.count("└─") + out.count("├─") == len(trace["spans"])


def test_hostile_text_of_a_model_does_not_reach_the_terminal_as_escapes(atp: Shell) -> None:
    (atp.folder / "script.yaml").write_text('steps:\n- text: "\\e[31mred\\a\\r\\nnext"\n', encoding="utf-8")
    code, _, err = atp("run", *PAIR, "-m", "scripted/file:script.yaml", "--task", "ledger-000")
    assert code == 0, err
    run_id = atp.json("results")["attempts"][0]["run_id"]
    _, out, _ = atp("trace", run_id)
    assert "red" in out
    assert "\x1b" not in out and "\a" not in out and "\r" not in out


def test_missing_scores_give_exit_code_1_and_are_told(atp: Shell) -> None:
    code, out, err = atp(
        "run", *PAIR, "-m", "openai/x", "--base-url", "http://127.0.0.1:9/v1", "-n", "2", "--retries", "0"
    )
    assert code == 1
    assert "2 of 2 slots have no score" in out
    assert "atp resume" in err
    assert atp("results")[0] == 1


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("-b", "legder", "-H", "thinloop", "-m", "scripted/noop"), 2, "ledger"),
        (("-b", "ledger", "-H", "thinlop", "-m", "scripted/noop"), 2, "thinloop"),
        (("-b", "ledger", "-H", "thinloop", "-m", "scripted/nop"), 2, "noop"),
        (("-b", "ledger", "-H", "thinloop", "-m", "gpt-5.2"), 2, "openai/gpt-5.2"),
        (("-b", "ledger", "-H", "thinloop", "-m", "openai/gpt-5.2"), 3, "OPENAI_API_KEY"),
        (("-b", "ledger", "-H", "thinloop", "-m", "scripted/file:none.yaml"), 2, "none.yaml"),
        (("-b", "file:none.jsonl", "-H", "thinloop", "-m", "scripted/noop"), 2, "none.jsonl"),
        (("-b", "ledger", "-H", "thinloop", "-m", "scripted/noop", "-o", "seed=3"), 2, "benchmark.KEY=V"),
        (("-b", "ledger", "-H", "thinloop", "-m", "scripted/noop", "-n", "0"), 2, "-n"),
    ],
)
def test_bad_input_is_named_with_the_way_out_and_nothing_starts(
    atp: Shell, arguments: Sequence[str], code: int, told: str
) -> None:
    got, out, err = atp("run", *arguments)
    assert got == code, err
    assert told in err
    assert "Traceback" not in err
    assert out == ""
    assert not (atp.folder / "atp.db").exists()


@pytest.mark.parametrize("command", [("results",), ("resume",), ("trace", "run-x")])
def test_asking_for_a_database_that_is_not_there_does_not_make_it(atp: Shell, command: Sequence[str]) -> None:
    code, _, err = atp(*command)
    assert code == 3, err
    assert "atp.db" in err
    assert list(atp.folder.iterdir()) == []


def test_a_dry_run_says_what_would_run_and_starts_nothing(atp: Shell) -> None:
    plan = atp.json("run", *PAIR, "-m", "scripted/noop", "-n", "3", "--max-turns", "5", "--dry-run")
    assert (plan["slots"], plan["most_attempts"], plan["most_model_calls"]) == (3, 9, 45)
    assert len(plan["tasks"]["ledger"]) == 3
    assert list(atp.folder.iterdir()) == []


def test_ctrl_c_ends_with_130_stores_what_was_done_and_resume_goes_on(atp: Shell) -> None:
    (atp.folder / "script.yaml").write_text(
        "steps:\n- tool_calls: [{name: wait, arguments: {seconds: 1}}]\n- text: done\n", encoding="utf-8"
    )
    tasks = [part for number in range(0, 24, 2) for part in ("--task", f"ledger-{number:03d}")]
    process = atp.start("run", *PAIR, "-m", "scripted/file:script.yaml", *tasks, "-c", "1")
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if finished(atp):
            break
        time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "atp resume" in err
    first = atp.json("results", code=1)
    assert 0 < first["cells"][0]["graded"] < 12
    assert {attempt["status"] for attempt in first["attempts"]} == {
        "completed"
    }  # the running one was let end
    code, _, err = atp("resume", "-c", "12")
    assert code == 0, err
    assert atp.json("results")["cells"][0]["graded"] == 12


def finished(atp: Shell) -> bool:
    code, out, _ = atp("results", "--json")
    return code in (0, 1) and bool(out) and bool(json.loads(out)["cells"][0]["graded"])


def test_results_asked_in_a_loop_beside_a_live_run_disturb_nothing(atp: Shell) -> None:
    process = atp.start("run", *PAIR, "-m", "scripted/oracle", "--all", "-c", "4")
    asked: list[Mapping[str, Any]] = []
    while process.poll() is None:
        code, out, err = atp("results", "--json")
        if code in (0, 1) and out:
            asked.append(json.loads(out)["cells"][0])
        else:
            assert "atp.db" in err, err  # before the database is there
    _, err = process.communicate()
    assert process.returncode == 0, err
    assert atp.json("results")["cells"][0]["mean"] == 1.0
    assert asked
    assert all(cell["scheduled"] == cell["graded"] + cell["missing"] == 24 for cell in asked)


def test_a_file_of_tasks_is_scored_by_exact_match(atp: Shell) -> None:
    lines = [
        {"task_id": "a", "instruction": "Say 4.", "expected": {"outputs": ["4"]}},
        {"task_id": "b", "instruction": "Say x."},
    ]
    (atp.folder / "tasks.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    (atp.folder / "script.yaml").write_text("steps:\n- text: '4'\n", encoding="utf-8")
    outcome = atp.json(
        "run", "-b", "file:tasks.jsonl", "-H", "thinloop", "-m", "scripted/file:script.yaml", code=1
    )
    by_task = {attempt["task_id"]: attempt for attempt in outcome["attempts"]}
    assert by_task["a"]["score"] == 1.0
    assert (by_task["b"]["score"], by_task["b"]["score_reason"]) == (
        None,
        "the task 'b' has no expected.outputs to compare with",
    )
    assert (outcome["cells"][0]["graded"], outcome["cells"][0]["missing"]) == (1, 1)


def test_after_a_kill_of_the_engine_nothing_of_it_is_left_and_resume_goes_on_at_once(atp: Shell) -> None:
    (atp.folder / "script.yaml").write_text(
        "steps:\n- tool_calls: [{name: wait, arguments: {seconds: 3}}]\n- text: done\n", encoding="utf-8"
    )
    tasks = [part for number in range(0, 16, 2) for part in ("--task", f"ledger-{number:03d}")]
    process = atp.start("run", *PAIR, "-m", "scripted/file:script.yaml", *tasks, "-c", "2")
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not finished(atp):
        time.sleep(0.2)
    children = psutil.Process(process.pid).children(recursive=True)
    assert len(children) >= 2  # the worker and the scripted endpoint
    process.kill()
    process.communicate()
    _, alive = psutil.wait_procs(children, timeout=20)
    assert [child for child in alive if child.status() != psutil.STATUS_ZOMBIE] == []

    before = {a["run_id"]: a for a in atp.json("results", code=1)["attempts"]}
    assert "running" in {attempt["status"] for attempt in before.values()}
    code, _, err = atp("resume")
    assert code == 0, err
    after = atp.json("results")
    assert after["cells"][0]["graded"] == 8
    assert Counter(attempt["status"] for attempt in after["attempts"])["completed"] == 8
    for attempt in after["attempts"]:
        if before.get(attempt["run_id"], attempt)["status"] == "running":
            assert attempt["status"] == "interrupted"  # it is kept, and its slot was tried again


def test_a_resume_with_something_else_is_refused_by_name_and_goes_on_where_it_is_allowed(atp: Shell) -> None:
    # A worker that exits leaves the slot without a gradable attempt.
    begun = atp.json("run", *PAIR, "-m", "scripted/oracle", "-n", "1", "--retries", "0", code=0)
    assert begun["cells"][0]["graded"] == 1
    begun = atp.json(
        *("run", *PAIR, "-m", "scripted/oracle", "-n", "1", "--retries", "0", "-o", "harness.exit=7"), code=1
    )
    again = ("resume", begun["experiment"], "--retries", "0")
    assert [atp(*again, *other)[0] for other in (("--seed", "5"), ("-m", "scripted/noop"))] == [2, 2]
    code, _, err = atp(*again, "--max-turns", "3")
    assert (code, "options.limits.max_turns: was nothing, is 3" in err) == (3, True)
    assert atp.json("results", begun["experiment"], code=1)["attempts"] == begun["attempts"]
    same = atp.json(*again, "-n", "1", "-c", "2", code=1)
    assert (len(same["attempts"]), same["cells"][0]["mixed"]) == (2, False)
    other = atp.json(*again, "--max-turns", "3", "--allow-drift", code=1)
    assert (len(other["attempts"]), other["cells"][0]["mixed"]) == (3, True)

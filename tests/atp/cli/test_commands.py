"""The commands as another program sees them: one JSON object, an exit code, and words on standard error."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agent_task_protocol import __version__
from atp.cli import main
from tests.local_hub import LocalHub

SCRIPT = Path(sys.executable).parent / "atp"


@dataclass(frozen=True, slots=True)
class Ended:
    """What a command line left behind."""

    returncode: int
    stdout: str
    stderr: str


def atp(*arguments: str, **variables: str) -> Ended:
    """Run a command line in this process: a start of its own costs half a second each."""
    output, errors = io.StringIO(), io.StringIO()
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.redirect_stdout(output),
        contextlib.redirect_stderr(errors),
    ):
        patch.setattr(sys, "argv", ["atp", *arguments])
        for name, value in variables.items():
            patch.setenv(name, value)
        with pytest.raises(SystemExit) as ended:
            main()
    code = ended.value.code
    assert code is None or isinstance(code, int)
    return Ended(code or 0, output.getvalue(), errors.getvalue())


def atp_json(*arguments: str, exit_code: int = 0, **variables: str) -> Any:
    """Run the command with `--json`; all of its standard output is one object."""
    run = atp(*arguments, "--json", **variables)
    assert run.returncode == exit_code, run.stderr
    return json.loads(run.stdout)


def _named(rows: list[Mapping[str, Any]], name: str) -> Mapping[str, Any]:
    [row] = [row for row in rows if row["name"] == name]
    return row


def test_the_version_is_the_distributions() -> None:
    run = subprocess.run([SCRIPT, "--version"], capture_output=True, text=True, check=True)
    assert run.stdout == f"atp {__version__}\n"


def test_help_and_version_import_no_model_of_data_and_no_table() -> None:
    code = (
        "import sys\nsys.argv = ['atp', '--help']\nimport agent_task_protocol\n"
        "try:\n    agent_task_protocol.main()\nexcept SystemExit:\n    pass\n"
        "print(sorted({'pydantic', 'rich', 'sqlalchemy', 'asyncio'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines()[-1] == "[]"


def test_benchmarks_are_listed_with_what_is_missing(tmp_path: Path) -> None:
    rows = atp_json("list", "benchmarks", ATP_HOME=str(tmp_path))["benchmarks"]
    keys = "name title zone category capability year era difficulty tasks sandbox dataset revision license"
    assert {*keys.split(), "ready", "missing", "data_seen"} <= rows[0].keys()
    assert _named(rows, "humaneval")["missing"] == "atp data get humaneval"
    assert _named(rows, "ledger")["missing"] is None


def test_a_list_is_narrowed_by_value() -> None:
    where = ("--where", "category=tool-use", "--where", "sandbox=false", "--where", "difficulty=foundation")
    rows = atp_json("list", "benchmarks", *where)["benchmarks"]
    assert [row["name"] for row in rows] == ["ledger"]


def test_a_list_is_not_narrowed_by_what_it_does_not_have() -> None:
    run = atp("list", "benchmarks", "--where", "colour=red")
    assert (run.returncode, run.stdout) == (2, "")
    assert "there is no 'colour'" in run.stderr


def test_harnesses_are_listed_with_what_is_missing(tmp_path: Path) -> None:
    row = _named(atp_json("list", "harnesses", ATP_HOME=str(tmp_path))["harnesses"], "langgraph")
    assert {"name", "package", "version", "dialects", "ready", "missing"} <= row.keys()
    assert (row["ready"], row["missing"]) == (False, "atp env create langgraph")


def test_models_are_listed_with_their_keys_missing() -> None:
    rows = atp_json("list", "models")["models"]
    assert _named(rows, "scripted/oracle")["simulated"] is True
    assert "OPENAI_API_KEY" in _named(rows, "openai/MODEL")["missing"]


@pytest.mark.parametrize("what", ["benchmarks", "harnesses", "models"])
def test_a_table_fits_eighty_columns(what: str) -> None:
    lines = atp("list", what, COLUMNS="80").stdout.splitlines()
    assert len(lines) > 2
    assert max(map(len, lines)) <= 80


def test_a_card_is_shown_whole() -> None:
    card = atp_json("show", "harness", "thinloop")
    assert card["runner"] == "thinloop.runner:ThinLoopRunner"


def test_an_unknown_name_is_wrong_usage() -> None:
    run = atp("show", "benchmark", "legder", "--json")
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr.startswith("atp: no benchmark is called 'legder' (nearest: ledger)")


def test_an_unknown_command_is_wrong_usage() -> None:
    assert atp("lits").returncode == 2


def test_resolve_says_ready() -> None:
    assert atp_json("resolve", "ledger", "thinloop", "scripted/oracle")["ready"] is True


def test_resolve_ends_with_3_and_still_prints_when_something_is_missing(tmp_path: Path) -> None:
    found = atp_json(
        "resolve", "humaneval", "langgraph", "scripted/noop", exit_code=3, ATP_HOME=str(tmp_path)
    )
    assert found["ready"] is False
    assert len(found["problems"]) == 2
    assert found["environment"] is None


def test_a_broken_plugin_ends_with_3_and_its_name(tmp_path: Path) -> None:
    information = tmp_path / "broken-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n", encoding="utf-8"
    )
    (information / "entry_points.txt").write_text("[atp.harnesses]\nbroken = gone:CARD\n", encoding="utf-8")
    run = subprocess.run(
        [SCRIPT, "list", "harnesses"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 3
    assert "harness 'broken' (gone:CARD) of broken 1.0 cannot be loaded: ModuleNotFoundError" in run.stderr


def test_data_are_listed_got_and_checked(tmp_path: Path) -> None:
    home = str(tmp_path)
    assert atp_json("data", "list", "humaneval", ATP_HOME=home)["path"] is None
    assert atp("data", "check", "humaneval", ATP_HOME=home).returncode == 1
    got = atp_json("data", "get", "humaneval", ATP_HOME=home)
    assert {"name", "source", "revision", "sha256", "path", "rows"} <= got.keys()
    assert got["rows"] == 164  # https://arxiv.org/abs/2107.03374
    assert atp_json("data", "check", "humaneval", ATP_HOME=home)["problems"] == []


def test_a_split_of_the_hub_is_listed_got_checked_and_graded_by(gsm8k_hub: LocalHub) -> None:
    listed = atp_json("data", "list", "gsm8k")
    assert (listed["path"], listed["sha256"]) == (None, None)
    assert atp_json("data", "check", "gsm8k", exit_code=1)["problems"] == [
        "gsm8k has not been fetched; type: atp data get gsm8k"
    ]
    got = atp_json("data", "get", "gsm8k")
    assert got["rows"] == 1319  # https://arxiv.org/abs/2110.14168
    assert got["source"] == "openai/gsm8k (main, test)"
    assert got["sha256"] == hashlib.sha256((Path(got["path"]) / "rows.jsonl").read_bytes()).hexdigest()
    assert atp_json("data", "check", "gsm8k") == got | {"problems": []}
    assert atp_json("data", "list", "gsm8k") == got
    verdict = atp_json("score", "gsm8k", "gsm8k-0", "--answer", "#### 18")
    assert (verdict["score"], verdict["passed"]) == (1.0, True)


def test_a_hub_that_cannot_be_reached_ends_with_1_and_the_way_out(tmp_path: Path) -> None:
    nowhere = {"ATP_HOME": str(tmp_path), "HF_ENDPOINT": "http://127.0.0.1:1", "HF_HUB_OFFLINE": "0"}
    run = atp("data", "get", "gsm8k", **nowhere)
    assert run.returncode == 1
    assert "When it can be reached, type again: atp data get gsm8k" in run.stderr


def test_environments_are_listed_with_their_packages() -> None:
    rows = atp_json("env", "list")["environments"]
    [own] = [row for row in rows if row["harness"] == "thinloop"]
    assert own["python"] == sys.executable
    assert own["packages"]["agent-task-protocol"] == __version__


def test_environments_of_benchmarks_and_of_the_hubs_reader_are_listed_too(tmp_path: Path) -> None:
    rows = atp_json("env", "list", ATP_HOME=str(tmp_path))["environments"]
    assert [(row["name"], row["kind"], row["harness"]) for row in rows] == [
        ("thinloop", "harness", "thinloop"),
        ("outpost", "benchmark", None),
    ]
    for name, kind in (("agentdojo", "benchmark"), ("hub-datasets", "reader"), ("langgraph", "harness")):
        removed = atp_json("env", "remove", name, ATP_HOME=str(tmp_path))
        assert (removed["name"], removed["kind"], removed["removed"]) == (name, kind, [])


def test_an_environment_that_nobody_has_is_answered_with_the_nearest() -> None:
    run = atp("env", "create", "agentdoj")
    assert run.returncode == 2
    assert "nothing that has an environment is called 'agentdoj' (nearest: agentdojo" in run.stderr


def test_a_benchmark_without_its_environment_says_the_command(tmp_path: Path) -> None:
    row = _named(atp_json("list", "benchmarks", ATP_HOME=str(tmp_path))["benchmarks"], "agentdojo")
    assert (row["ready"], row["missing"]) == (False, "atp env create agentdojo")
    found = atp_json("resolve", "agentdojo", "thinloop", "scripted/noop", exit_code=3, ATP_HOME=str(tmp_path))
    assert found["problems"] == [
        "benchmark 'agentdojo' has no environment yet; type: atp env create agentdojo"
    ]


def test_an_answer_is_graded_by_a_benchmark_in_a_worker() -> None:
    graded = atp_json("score", "outpost", "ledger-000", "--answer", "x")
    assert (graded["score"], graded["grader"]) == (0.0, "ledger")


def test_an_answer_is_graded_without_an_agent(tmp_path: Path) -> None:
    tasks = tmp_path / "tasks.jsonl"
    tasks.write_text(
        '{"task_id": "a", "instruction": "Say yes.", "expected": {"outputs": ["yes"]}}\n', "utf-8"
    )
    assert atp_json("score", f"file:{tasks}", "a", "--answer", "yes")["score"] == 1.0
    answer = tmp_path / "answer"
    answer.write_text("no", encoding="utf-8")
    graded = atp_json("score", f"file:{tasks}", "a", "--answer-file", str(answer))
    assert (graded["score"], graded["passed"], graded["task_id"]) == (0.0, False, "a")


def test_a_task_without_gold_has_no_score_and_ends_with_1(tmp_path: Path) -> None:
    tasks = tmp_path / "tasks.jsonl"
    tasks.write_text('{"task_id": "a", "instruction": "Say anything."}\n', encoding="utf-8")
    assert atp_json("score", f"file:{tasks}", "a", "--answer", "x", exit_code=1)["score"] is None


def test_an_unknown_task_is_answered_with_the_nearest() -> None:
    run = atp("score", "ledger", "ledger-0001", "--answer", "x")
    assert run.returncode == 2
    assert "nearest: ledger-001" in run.stderr


def test_an_answer_is_given_one_way() -> None:
    assert atp("score", "ledger", "ledger-001").returncode == 2


def test_doctor_says_what_is_missing(tmp_path: Path) -> None:
    checks = atp_json("doctor", exit_code=1, ATP_HOME=str(tmp_path))["checks"]
    assert {"name", "ok", "detail"} == checks[0].keys()
    assert _named(checks, "uv")["ok"] is True
    assert "atp data get humaneval" in _named(checks, "data of humaneval")["detail"]


def test_resolve_reads_options_as_run_does() -> None:
    spoken = ("resolve", "ledger", "openai-agents", "scripted/oracle", "--python", sys.executable)
    assert atp_json(*spoken, "-o", "harness.dialect=openai-responses")["dialect"] == "openai-responses"
    assert "ledger has no option 'sead'" in atp("resolve", *spoken[1:], "-o", "benchmark.sead=1").stderr
    assert "write benchmark.KEY=V or harness.KEY=V" in atp("resolve", *spoken[1:], "-o", "dialect=x").stderr


EXPERIMENT = "benchmark: ledger\nharness: thinloop\nmodel: [scripted/oracle, scripted/noop]\nn: 2\n"


def test_options_on_the_command_line_go_before_those_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "e.yaml"
    file.write_text(
        f"{EXPERIMENT}repeats: 3\no: {{benchmark.seed: 8, benchmark.tasks: 4}}\n", encoding="utf-8"
    )
    planned = ("run", "-f", str(file), "--dry-run")
    assert atp_json(*planned)["slots"] == 12  # 2 models, 2 tasks, 3 repeats
    assert atp_json(*planned, "-m", "scripted/noop", "--repeats", "1")["slots"] == 2
    # The choice of tasks is one choice, and options of adapters are added key by key.
    assert atp_json(*planned, "--all", "--repeats", "1", "-o", "benchmark.tasks=5")["slots"] == 10
    # A default that is typed was typed.
    assert atp_json(*planned, "--repeats", "1", "-n", "40")["slots"] == 8


def test_what_came_from_where_is_said_to_those_who_ask(tmp_path: Path) -> None:
    file = tmp_path / "e.yaml"
    file.write_text(EXPERIMENT, encoding="utf-8")
    planned = ("run", "-f", str(file), "--dry-run", "-n", "1")
    said = atp(*planned, "-v").stderr
    assert f"{file} gives benchmark, harness, model, n" in said
    assert "the command line gives n" in said
    assert f"{file}: n is passed over" in said
    assert "passed over" not in atp(*planned).stderr


def test_a_run_without_a_model_says_where_one_is_given(tmp_path: Path) -> None:
    file = tmp_path / "e.yaml"
    file.write_text("benchmark: ledger\nharness: thinloop\n", encoding="utf-8")
    run = atp("run", "-f", str(file), "--dry-run")
    assert run.returncode == 2
    assert "no model: give -m, or `model` in a file" in run.stderr

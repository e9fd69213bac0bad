"""Names, values and arguments that are not text: refused by name, before anything is stored."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from thinloop.runner import ThinLoopRunner

from atp.engine.options import RunOptions
from atp.protocol.errors import InvalidInput
from atp.protocol.spans import SpanKind
from monitor.recorder import SpanRecorder
from tests.atp.engine.experiments import Lab

NOT_UTF8 = b"x\xff"
HALF = "x\ud83d"
TASK = '{"task_id": "one", "instruction": "What?", "expected": {"outputs": ["42"]}}\n'
RUN = [b"run", b"-b", b"file:tasks.jsonl", b"-H", b"thinloop", b"-m", b"scripted/oracle"]


def atp(folder: Path, *arguments: bytes, **variables: bytes) -> subprocess.CompletedProcess[bytes]:
    command = [os.fsencode(sys.executable), b"-m", b"atp.cli", *arguments]
    return subprocess.run(
        command, cwd=folder, env={**os.environb, **_bytes(variables)}, capture_output=True, check=False
    )


def _bytes(variables: dict[str, bytes]) -> dict[bytes, bytes]:
    return {name.encode(): value for name, value in variables.items()}


@pytest.mark.parametrize(
    "arguments",
    [
        [*RUN, b"--name", NOT_UTF8],
        [*RUN, b"--task", NOT_UTF8],
        [*RUN, b"-o", b"harness.print=" + NOT_UTF8],
        [*RUN, b"--db", b"sqlite:///./" + NOT_UTF8],
        [b"run", b"-b", b"file:" + NOT_UTF8, b"-H", b"thinloop", b"-m", b"scripted/oracle"],
        [b"trace", NOT_UTF8],
        [b"results", NOT_UTF8],
        [b"score", b"file:tasks.jsonl", b"one", b"--answer", NOT_UTF8],
    ],
    ids=["name", "task", "option", "database", "file", "run", "experiment", "answer"],
)
def test_an_argument_that_is_not_utf8_is_refused_and_shown(arguments: list[bytes], tmp_path: Path) -> None:
    (tmp_path / "tasks.jsonl").write_text(TASK, encoding="utf-8")
    done = atp(tmp_path, *arguments)
    assert done.returncode == 2, done.stderr
    assert b"\\xff' is not UTF-8" in done.stderr
    assert b"Traceback" not in done.stderr
    assert not list(tmp_path.glob("*.db"))


def test_a_folder_whose_name_is_not_utf8_holds_a_database_like_any_other(tmp_path: Path) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + NOT_UTF8))
    folder.mkdir()
    (folder / "tasks.jsonl").write_text(TASK, encoding="utf-8")
    done = atp(folder, *RUN)
    assert done.returncode == 2, done.stderr
    assert b"the path is not UTF-8" in done.stderr  # which results would name
    done = atp(folder, b"run", b"-b", b"ledger", b"-n", b"1", *RUN[3:])
    assert done.returncode == 0, done.stderr
    done = atp(folder, b"results", b"--json")
    assert done.returncode == 0, done.stderr
    assert (folder / "atp.db").exists()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", HALF),
        ("tasks", (HALF,)),
        ("benchmark_options", {"key": HALF}),
        ("harness_options", {HALF: "value"}),
        ("base_url", HALF),
    ],
)
def test_an_option_with_half_of_a_surrogate_pair_is_refused_by_name(field: str, value: Any) -> None:
    with pytest.raises(InvalidInput, match=rf"^{field}: 'x\\ud83d' is not Unicode text"):
        RunOptions.model_validate({"benchmarks": "b", "harnesses": "h", "models": "m", field: value} | _lists)


_lists = {"benchmarks": ("b",), "harnesses": ("h",), "models": ("m",)}


async def test_a_harness_whose_error_and_span_names_are_not_text_ends_its_attempt_only(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run(self: object, task: object, binding: object, context: Any) -> None:
        recorder = context.recorder
        assert isinstance(recorder, SpanRecorder)
        recorder.start(SpanKind.CHAIN, HALF).end(RuntimeError(HALF))
        raise RuntimeError(f"half {HALF}")

    monkeypatch.setattr(ThinLoopRunner, "run", run)
    outcome = await lab.run(workers=0, tasks=("ledger-000",))
    [attempt] = outcome["attempts"]
    assert (attempt["status"], attempt["error"]["message"]) == ("infra_error", f"half {HALF}")
    [chain] = [span for span in lab.spans(attempt["run_id"]) if span.kind is SpanKind.CHAIN]
    assert chain.name == "x\ufffd"
    assert chain.error_message == "x\ufffd"

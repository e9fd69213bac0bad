"""A benchmark in a worker of its own: the same results as in the engine, and its death is nobody's fault."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from atp import registry
from atp.engine.benchmark_worker import BenchmarkWorker, benchmark_workers
from atp.protocol.errors import BenchmarkError, InfrastructureError, PluginError, UsageError
from atp.protocol.redaction import Redactor
from atp.protocol.worker_benchmark import WorkerBenchmark
from tests.atp.engine.experiments import Lab
from tests.atp.engine.test_faults import own_workers

FAR = "outpost"
WAYS = pytest.mark.parametrize("workers", [1, 0], ids=["process worker", "in-memory link"])


def scripted(folder: Path, *steps: Any) -> str:
    path = folder / "script.yaml"
    path.write_text(json.dumps({"steps": list(steps)}), encoding="utf-8")
    return f"scripted/file:{path}"


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"tool_calls": [{"name": name, "arguments": arguments}]}


def comparable(outcome: dict[str, Any]) -> list[Any]:
    """What has to be the same wherever the benchmark lives."""
    kept = ("task_id", "status", "stop_reason", "score", "score_reason", "score_details", "turns", "usage")
    return [
        [
            *(attempt[key] for key in kept),
            [(c["name"], c["arguments"], c["result"], c["error"]) for c in attempt["tool_calls"]],
        ]
        for attempt in sorted(outcome["attempts"], key=lambda attempt: str(attempt["task_id"]))
    ]


def test_its_tasks_are_those_that_it_has_in_the_engine() -> None:
    far, near = registry.benchmark(FAR), registry.benchmark("ledger")
    assert list(far.load(None)) == list(near.load(None))


@WAYS
async def test_tools_users_and_grades_are_the_same_as_in_the_engine(lab: Lab, workers: int) -> None:
    near = await lab.run("ledger", count=6, workers=workers)
    far = await lab.run(FAR, count=6, workers=workers)
    assert comparable(far) == comparable(near)
    assert {attempt["score"] for attempt in far["attempts"]} == {1.0}
    assert own_workers() == []


@WAYS
async def test_one_process_of_its_own_serves_all_attempts_of_a_run(
    lab: Lab, workers: int, tmp_path: Path
) -> None:
    model = scripted(tmp_path, call("statement", characters=0), {"text": "done"}, {"text": "done"})
    outcome = await lab.run(FAR, models=[model, "scripted/noop"], count=4, workers=workers)
    said = {json.dumps(c["result"]) for a in outcome["attempts"] for c in a["tool_calls"]}
    [(pid, variable)] = map(json.loads, said)
    assert pid != os.getpid() and variable == "yes"


async def test_a_refused_call_and_a_broken_tool_say_what_they_say_in_the_engine(
    lab: Lab, tmp_path: Path
) -> None:
    broken = scripted(tmp_path, call("fail", message="no"), call("crash", message="boom"))
    outcomes = [await lab.run(name, models=[broken], tasks=("ledger-000",)) for name in ("ledger", FAR)]
    near, far = map(comparable, outcomes)
    assert far == near
    [attempt] = outcomes[1]["attempts"]
    assert attempt["status"] == "benchmark_error"
    assert attempt["error"]["message"] == "tool 'crash' raised RuntimeError: boom"


async def test_a_result_that_is_no_plain_data_is_the_benchmarks_error(lab: Lab, tmp_path: Path) -> None:
    model = scripted(tmp_path, call("crash", message="object"))
    [attempt] = (await lab.run(FAR, models=[model], tasks=("ledger-000",)))["attempts"]
    assert attempt["status"] == "benchmark_error"
    assert "tool 'crash' raised" in attempt["error"]["message"]


async def test_its_death_ends_the_attempts_in_flight_which_are_tried_again_in_a_new_process(
    lab: Lab, tmp_path: Path
) -> None:
    model = scripted(tmp_path, call("crash", message="exit"), {"text": "done"})
    outcome = await lab.run(FAR, models=[model], tasks=("ledger-000",), retries=1)
    assert [attempt["try"] for attempt in outcome["attempts"]] == [1, 2]
    for attempt in outcome["attempts"]:
        assert (attempt["status"], attempt["stop_reason"]) == ("infra_error", "worker_error")
        assert "exit code 7" in attempt["error"]["message"] and ".log" in attempt["error"]["message"]
        assert attempt["error"]["fault"] == "infrastructure"
    assert own_workers() == []


async def test_attempts_that_lost_their_world_do_not_end_well(lab: Lab, tmp_path: Path) -> None:
    path = tmp_path / "two.yaml"
    steps = {
        "tasks": [
            {"match": "ledger-000", "steps": [call("wait", seconds=1), {"text": "done"}]},
            {"match": "ledger-002", "steps": [call("crash", message="exit"), {"text": "done"}]},
        ]
    }
    path.write_text(json.dumps(steps), encoding="utf-8")
    outcome = await lab.run(FAR, models=[f"scripted/file:{path}"], tasks=("ledger-000", "ledger-002"))
    assert [attempt["status"] for attempt in outcome["attempts"]] == ["infra_error"] * 2


async def test_its_death_while_grading_is_a_missing_grade_that_resume_makes_good(
    lab: Lab, tmp_path: Path
) -> None:
    options = {"dies_once": str(tmp_path / "died")}
    outcome = await lab.run(FAR, tasks=("ledger-000",), benchmark_options=options)
    [attempt] = outcome["attempts"]
    assert (attempt["status"], attempt["score"], attempt["score_fault"]) == (
        "completed",
        None,
        "infrastructure",
    )
    assert "exit code 8" in attempt["score_reason"]
    again = await lab.resume()
    assert [(a["run_id"], a["score"]) for a in again["attempts"]] == [(attempt["run_id"], 1.0)]
    assert own_workers() == []


async def test_an_option_that_its_own_side_refuses_is_a_wrong_usage(lab: Lab) -> None:
    with pytest.raises(UsageError, match="ledger has no option 'sede'"):
        await lab.run(FAR, benchmark_options={"sede": "1"})


async def test_what_its_package_prints_does_not_reach_the_tasks(tmp_path: Path) -> None:
    (tmp_path / "noisy.py").write_text(
        "print('noise')\nfrom ledger.far import MortalLedger\n", encoding="utf-8"
    )
    benchmark = _with_factory("noisy:MortalLedger", tmp_path)
    assert len(benchmark.load(None)) == 24


async def test_a_factory_that_is_not_there_is_named(tmp_path: Path) -> None:
    benchmark = _with_factory("nowhere:Nothing", tmp_path)
    with pytest.raises(UsageError, match="'nowhere:Nothing' cannot be imported"):
        benchmark.load(None)
    async with benchmark_workers([benchmark], tmp_path, Redactor()):
        with pytest.raises(UsageError, match="'nowhere:Nothing' cannot be imported"):
            await benchmark.environment(registry.benchmark("ledger").load(None)[0]).open()
    assert own_workers() == []


async def test_a_factory_that_gives_something_else_is_named(tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text("made = dict\n", encoding="utf-8")
    benchmark = _with_factory("other:made", tmp_path)
    async with benchmark_workers([benchmark], tmp_path, Redactor()):
        with pytest.raises(BenchmarkError, match="other:made gave back dict, not a Benchmark"):
            await benchmark.environment(registry.benchmark("ledger").load(None)[0]).open()


async def test_a_package_that_breaks_as_it_says_its_tasks_is_an_error_with_what_it_said(
    tmp_path: Path,
) -> None:
    (tmp_path / "broken.py").write_text(
        "def made(options):\n    raise OSError('no disk')\n", encoding="utf-8"
    )
    with pytest.raises(InfrastructureError, match="no disk"):
        _with_factory("broken:made", tmp_path).load(None)


async def test_calls_reach_one_environment_in_the_order_in_which_they_are_made(tmp_path: Path) -> None:
    benchmark = registry.benchmark(FAR)
    task = benchmark.load(None)[0]
    async with benchmark_workers([benchmark], tmp_path, Redactor()):
        environment = benchmark.environment(task)
        await environment.open()
        owners = [{"owner": {"name": f"N{number}"}, "currency": "EUR"} for number in range(20)]
        opened = await asyncio.gather(*(environment.execute("open_account", owner) for owner in owners))
        await environment.close()
    numbers = [int(str(item["account"]).removeprefix("acc-")) for item in opened if isinstance(item, dict)]
    assert numbers == sorted(numbers) and len(set(numbers)) == 20


def test_a_card_that_names_a_worker_needs_the_class_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "ledger.benchmark.LedgerBenchmark.card",
        registry.benchmark(FAR).card.model_copy(update={"name": "ledger"}),
    )
    with pytest.raises(PluginError, match="a card names a worker where the class is a WorkerBenchmark"):
        registry.benchmark("ledger")


def test_no_model_can_play_a_user_who_lives_in_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    card = registry.benchmark(FAR).card.model_copy(update={"user_model": True})
    monkeypatch.setattr("ledger.far.FarLedger.card", card)
    with pytest.raises(PluginError, match="no model can play a user"):
        registry.benchmark(FAR)


def _with_factory(factory: str, folder: Path) -> WorkerBenchmark:
    benchmark = registry.benchmark(FAR)
    assert isinstance(benchmark, WorkerBenchmark) and benchmark.card.worker is not None
    path = os.pathsep.join([str(folder), os.environ["PYTHONPATH"]])
    worker = benchmark.card.worker.model_copy(
        update={"factory": factory, "environment": {"PYTHONPATH": path}}
    )

    class Other(WorkerBenchmark):
        card = benchmark.card.model_copy(update={"worker": worker})
        grader_version = "1"

    other = Other()
    other.port = BenchmarkWorker(other.card, {})
    return other

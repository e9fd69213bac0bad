"""An experiment with the faults of the model wire: a task for each, whose script goes wrong."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import JsonValue

from atp import registry
from atp.engine.lease import held
from atp.engine.options import RunOptions
from atp.engine.plan import check_ready, freeze
from atp.engine.resume import fresh
from atp.engine.run import Run
from atp.models.ref import ModelRef
from atp.models.scripted.wire_log import read_wire_log
from atp.protocol.benchmark import Benchmark
from atp.protocol.cards import BenchmarkCard
from atp.protocol.environment import Environment, ToolSpec
from atp.protocol.model import Limits
from atp.protocol.spans import Span
from atp.protocol.task import TaskInput, TextPart
from atp.protocol.trace import Grade, TaskTrace
from atp.store.store import Store
from tests.atp.engine.experiments import Watched
from tests.faults.fixture import Column, WireFault

REFUSED = "connect-refused"
"""The one fault that no server can show."""
DISCARD = "http://127.0.0.1:9/v1"
"""Port 9 (discard, RFC 863) of the loopback interface: nobody listens."""
MODEL_TIMEOUT = 1.5
"""Seconds: more than a reply that is only slow takes, and what silence costs."""

TOOLS = (
    # Nothing is required: a tool that is run with arguments that a harness has emptied does not notice.
    ToolSpec(
        name="note",
        description="Write a note.",
        parameters={"type": "object", "properties": {"text": {"type": "string"}}},
    ),
    ToolSpec(
        name="pay",
        description="Pay cents.",
        parameters={"type": "object", "properties": {"cents": {"type": "integer"}}, "required": ["cents"]},
    ),
)

CARD = BenchmarkCard(
    name="model-faults",
    title="Model faults",
    description="What goes wrong between a harness and its model.",
    zone=None,
    category=None,
    capability="tool",
    year=None,
    era=None,
    difficulty=None,
    tasks=0,
    sandbox=False,
    dataset="model-faults",
    revision="1",
    license="Apache-2.0",
    data_seen="real",
    rule="The answer is `Done.`.",
)


class FaultBenchmark(Benchmark):
    """Its tasks are given from outside, one for each fault."""

    card = CARD
    grader_version = "1"

    def load(self, data: Path | None) -> Sequence[TaskInput]:
        """See `Benchmark.load`."""
        return []

    def environment(self, task: TaskInput) -> Environment:
        """See `Benchmark.environment`."""
        return _Notebook()

    async def grade(self, task: TaskInput, trace: TaskTrace) -> Grade:
        """See `Benchmark.grade`."""
        passed = trace.final_answer == "Done."
        return Grade(
            score=float(passed), passed=passed, grader=self.card.name, grader_version=self.grader_version
        )


class _Notebook(Environment):
    system_prompt = "Write a note."
    tools = TOOLS

    async def execute(self, name: str, arguments: dict[str, Any]) -> JsonValue:
        """See `Environment.execute`."""
        return "noted"


@dataclass(frozen=True, slots=True)
class Tried:
    """One try at one fault, as the records tell of it."""

    trace: TaskTrace
    grade: Grade | None
    requests: Sequence[Mapping[str, Any]]
    """Lines of the endpoint's log."""
    spans: Sequence[Span]
    bodies: Mapping[str, Any]
    """By digest: whatever the spans name."""


async def run_faults(
    column: Column, faults: Sequence[WireFault], folder: Path, *, workers: int = 1
) -> Mapping[str, Sequence[Tried]]:
    """Run these faults on one harness, with one further try where the status table says so.

    Returns:
        The tries of each fault, by its name.
    """
    # What takes longest comes first; what makes the engine ask less at once, a 429, last.
    faults = sorted(faults, key=lambda fault: (fault.rate_limit, not fault.silent))
    script = folder / "script.yaml"
    said = [{"match": fault.name, "steps": fault.plain_steps()} for fault in faults]
    script.write_text(yaml.safe_dump({"tasks": said}), encoding="utf-8")
    asked = RunOptions(
        benchmarks=(CARD.name,),
        harnesses=(column.harness,),
        models=(f"scripted/file:{script}", "openai/x"),
        base_url=DISCARD,
        harness_options=column.options,
        limits=Limits(max_turns=6, model_timeout=MODEL_TIMEOUT),
        concurrency=24,
        workers=workers,
        retries=1,
    )
    environ = {**os.environ, "OPENAI_API_KEY": "sk-none"}
    scripted, unreachable = (_pairing(column, model, workers, environ) for model in asked.models)
    chosen = [
        (scripted, [_task(fault) for fault in faults if fault.name != REFUSED]),
        (unreachable, [_task(fault) for fault in faults if fault.name == REFUSED]),
    ]
    chosen = [(pairing, tasks) for pairing, tasks in chosen if tasks]
    check_ready([pairing for pairing, _ in chosen])
    planned = freeze(asked, chosen, environ)
    with Store.open(f"sqlite:///{folder / 'atp.db'}") as store:
        await store.create_experiment(planned.experiment, [cell.row for cell in planned.cells], planned.slots)
        async with held(store, planned.experiment.id):
            await Run(store, fresh(planned), asked, environ, folder / "logs", Watched()).run()
        return _gathered(store, planned.experiment.id, folder / "logs" / "wire.jsonl")


def _pairing(column: Column, model: str, workers: int, environ: Mapping[str, str]) -> registry.Pairing:
    return registry.pair(
        CARD.name,
        FaultBenchmark(),
        registry.harness(column.harness),
        ModelRef.parse(model),
        harness_options=column.options,
        in_process=workers == 0,
        base_url=DISCARD,
        environ=environ,
    )


def _task(fault: WireFault) -> TaskInput:
    return TaskInput(task_id=fault.name, instruction=(TextPart(text="Note that it is paid."),))


def _gathered(store: Store, experiment_id: str, wire_log: Path) -> Mapping[str, Sequence[Tried]]:
    log = list(read_wire_log(wire_log))
    tried: dict[str, list[Tried]] = {}
    for row in store.attempts(experiment_id):
        assert row.trace is not None, f"{row.run_id} has not ended"
        tried.setdefault(row.slot.task_id, []).append(
            Tried(
                trace=row.trace,
                grade=row.grade,
                requests=[line for line in log if line["session"] == row.run_id],
                spans=store.spans(row.run_id),
                bodies=store.bodies(row.run_id),
            )
        )
    return tried

"""A benchmark with a harness: what only the two together can show."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from atp import registry
from atp.conformance.benchmark import made_benchmark
from atp.conformance.check import Check, Problems, Report, apply
from atp.engine.lease import held
from atp.engine.options import RunOptions
from atp.engine.plan import Plan, check_ready, freeze
from atp.engine.resume import fresh
from atp.engine.run import Run
from atp.engine.sampling import sample
from atp.models.ref import ModelRef
from atp.protocol.benchmark import Benchmark
from atp.protocol.cards import HarnessCard
from atp.protocol.model import Limits
from atp.protocol.trace import Grade, TaskTrace
from atp.store.rows import AttemptRow
from atp.store.store import Store

SAMPLE = 2
"""Tasks that a pair is run on."""
DEADLINE = 300.0
"""Seconds of one attempt."""
ORACLE, NOOP = "scripted/oracle", "scripted/noop"


@dataclass(frozen=True, slots=True)
class PairEvidence:
    """What became of a sample of the benchmark's tasks in the harness."""

    attempts: Mapping[str, Sequence[AttemptRow]]
    """Of each model."""
    floors: Mapping[str, float]
    """By task."""


def oracle(evidence: PairEvidence) -> Problems:
    """A model that does what the task expects gets the full score through this harness.

    Source: `docs/scripted-models.md`.
    """
    for attempt in evidence.attempts[ORACLE]:
        if _score(attempt) != 1.0:
            yield f"{attempt.slot.task_id}: {_described(attempt)}"


def noop(evidence: PairEvidence) -> Problems:
    """A model that does nothing gets the benchmark's floor through this harness, item by item.

    Source: `Benchmark.floor`.
    """
    for attempt in evidence.attempts[NOOP]:
        floor = evidence.floors[attempt.slot.task_id]
        if _score(attempt) != floor:
            yield f"{attempt.slot.task_id}: {_described(attempt)}; its floor is {floor}"


def records(evidence: PairEvidence) -> Problems:
    """All records of every attempt tell the same story.

    Source: the design's "the records that are really independent are compared".
    """
    for attempts in evidence.attempts.values():
        for attempt in attempts:
            check = attempt.trace.checks if attempt.trace is not None else None
            if check is None or check.agree is None:
                yield f"{attempt.slot.task_id}: there is nothing to compare; {_described(attempt)}"
            else:
                yield from (f"{attempt.slot.task_id}: {difference}" for difference in check.differences)


PAIR_CHECKS: tuple[Check[PairEvidence], ...] = (oracle, noop, records)


async def check_pair(
    benchmark: str | type[Benchmark],
    harness: str | HarnessCard,
    *,
    harness_options: Mapping[str, str] | None = None,
    count: int = SAMPLE,
    seed: int = 0,
    workers: int = 1,
) -> Report:
    """Run a sample of a benchmark's tasks in a harness, with a perfect model and a silent one.

    Args:
        benchmark: Its class, or the name of one that is installed.
        harness: Its card, or the name of one that is installed.
        harness_options: `-o harness.KEY=V`.
        count: Tasks.
        seed: Of that sample.
        workers: 0 runs the harness in this process.

    Raises:
        UnknownName: A name that nothing answers to.
        NotReady: Something is missing; says the command that brings it.
    """
    card = registry.harness(harness) if isinstance(harness, str) else harness
    made = made_benchmark(benchmark, None)
    options = dict(harness_options or {})
    asked = RunOptions(
        benchmarks=(made.card.name,),
        harnesses=(card.name,),
        models=(ORACLE, NOOP),
        harness_options=options,
        limits=Limits(deadline=DEADLINE),
        workers=workers,
        retries=0,
    )
    pairings = [
        registry.pair(
            made.card.name,
            made,
            card,
            ModelRef.parse(model),
            harness_options=options,
            in_process=workers == 0,
        )
        for model in asked.models
    ]
    check_ready(pairings)
    tasks = sample(await asyncio.to_thread(made.load, made.data), count, seed)
    floors = {task.task_id: await asyncio.to_thread(made.floor, task) for task in tasks}
    planned = await asyncio.to_thread(freeze, asked, [(pairing, tasks) for pairing in pairings], os.environ)
    attempts = await _attempts(planned, asked)
    evidence = PairEvidence(attempts, floors)
    subject = f"{made.card.name} with {card.name}"
    return Report(subject, tuple(apply(check, evidence) for check in PAIR_CHECKS))


async def _attempts(planned: Plan, asked: RunOptions) -> Mapping[str, Sequence[AttemptRow]]:
    with tempfile.TemporaryDirectory(prefix="atp-conformance-") as kept:
        folder = Path(kept)
        with Store.open(f"sqlite:///{folder / 'atp.db'}") as store:
            rows = [cell.row for cell in planned.cells]
            await store.create_experiment(planned.experiment, rows, planned.slots)
            async with held(store, planned.experiment.id):
                await Run(store, fresh(planned), asked, os.environ, folder / "logs", _Unwatched()).run()
            cells = {cell.id: cell.model for cell in rows}
            stored = await asyncio.to_thread(store.attempts, planned.experiment.id)
    return {model: [row for row in stored if cells[row.slot.cell_id] == model] for model in asked.models}


class _Unwatched:
    """Nobody looks on (a `RunEvents`)."""

    def attempt_started(self, run_id: str, cell_id: str, task_id: str) -> None:
        """See `RunEvents`."""

    def attempt_ended(self, run_id: str, cell_id: str, trace: TaskTrace, retried: bool) -> None:
        """See `RunEvents`."""

    def graded(self, run_id: str, cell_id: str, verdict: Grade) -> None:
        """See `RunEvents`."""


def _score(attempt: AttemptRow) -> float | None:
    return attempt.grade.score if attempt.grade is not None else None


def _described(attempt: AttemptRow) -> str:
    error = attempt.trace.error if attempt.trace is not None else None
    reason = attempt.grade.reason if attempt.grade is not None else ""
    what = "; ".join(filter(None, [reason, error.message if error else ""]))
    return f"scores {_score(attempt)}, ended {attempt.status}" + (f" ({what})" if what else "")

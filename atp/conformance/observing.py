"""Runs the probe through the real engine, and gathers what was seen."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import orjson

from atp import registry
from atp.conformance.evidence import Attempt, Evidence, Mode, WireRequest
from atp.conformance.probe_benchmark import PROBES, ProbeBenchmark
from atp.conformance.probe_tasks import (
    BOUNDED,
    CONVERSATIONS,
    MAX_TOKENS,
    MAX_TURNS,
    Probe,
    write_script,
)
from atp.engine.lease import held
from atp.engine.options import RunOptions
from atp.engine.plan import check_ready, freeze
from atp.engine.resume import fresh
from atp.engine.run import Run
from atp.models.ref import ModelRef
from atp.models.scripted.dialects.routes import DIALECTS, dialect_at, split_path
from atp.models.scripted.idiom import idiom_named
from atp.models.scripted.steps import Refusal
from atp.models.scripted.wire_log import read_wire_log
from atp.protocol.cards import HarnessCard
from atp.protocol.errors import InfrastructureError
from atp.protocol.model import Dialect, Limits, Sampling
from atp.protocol.trace import Grade, TaskTrace
from atp.store.store import Store

DEADLINE = 120.0
"""Seconds; no probe needs two of them, and none may hang for ever."""
TEMPERATURE = 0.25
OUTPUT_TOKENS = 777
"""Sampling of the attempts under limits; the others have none."""
STREAM_OPTION = "stream"
"""`-o harness.stream=true`, on the cards of harnesses that stream when asked."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a harness runs, and how much of it at once."""

    workers: int = 1
    """Worker processes; 0 runs it in this process, which needs its SDK."""
    concurrency: int = 8
    """Attempts at once."""
    python: Path | None = None
    """Interpreter of the workers; None is that of the harness's own environment."""


ALONE = Placement()
"""One worker in an environment of the harness's own."""


async def observe(
    card: HarnessCard,
    folder: Path,
    *,
    options: Mapping[str, str] | None = None,
    placement: Placement = ALONE,
) -> Evidence:
    """Run every probe: in each dialect of the card, streamed too where it can be, and under limits.

    Args:
        card: The harness.
        folder: An empty one, for databases and logs.
        options: `-o harness.KEY=V` for all of the runs.
        placement: Where it runs.

    Raises:
        NotReady: The harness's environment is missing; says the command that makes it.
        InfrastructureError: An attempt left no record.
    """
    return Evidence(
        card,
        await observe_conversations(card, folder, options=options, placement=placement),
        await observe_bounded(card, folder, options=options, placement=placement),
    )


async def observe_conversations(
    card: HarnessCard,
    folder: Path,
    *,
    options: Mapping[str, str] | None = None,
    placement: Placement = ALONE,
) -> tuple[Mode, ...]:
    """The part of `observe` without limits."""
    script = folder / "conversations.yaml"
    await asyncio.to_thread(write_script, script, CONVERSATIONS)
    expecting = [probe for probe in CONVERSATIONS if probe.expected is not None]
    modes: list[Mode] = []
    for dialect, streamed in product(card.dialects, _streams(card)):
        chosen = _chosen(card, options or {}, dialect, streamed)
        within = folder / (f"{dialect}-streamed" if streamed else dialect)
        run = _ProbeRun(card, within, chosen, Limits(deadline=DEADLINE), Sampling(), placement)
        scripted, oracle, noop = await run.attempts(
            (f"scripted/file:{script}", CONVERSATIONS),
            ("scripted/oracle", expecting),
            ("scripted/noop", expecting),
        )
        label = f"{dialect}, streamed" if streamed else str(dialect)
        modes.append(Mode(label, streamed, scripted, oracle, noop))
    return tuple(modes)


async def observe_bounded(
    card: HarnessCard,
    folder: Path,
    *,
    options: Mapping[str, str] | None = None,
    placement: Placement = ALONE,
) -> Mapping[str, Attempt]:
    """The part of `observe` under limits, with an attempt that is cancelled; by the probe's name."""
    script = folder / "bounded.yaml"
    await asyncio.to_thread(write_script, script, BOUNDED)
    limits = Limits(deadline=DEADLINE, max_turns=MAX_TURNS, max_total_tokens=MAX_TOKENS)
    sampling = Sampling(temperature=TEMPERATURE, max_output_tokens=OUTPUT_TOKENS)
    chosen = _chosen(card, options or {}, card.dialects[0], False)
    run = _ProbeRun(card, folder / "bounded", chosen, limits, sampling, placement)
    [bounded] = await run.attempts((f"scripted/file:{script}", BOUNDED))
    return bounded


def _streams(card: HarnessCard) -> Sequence[bool]:
    return (False, True) if STREAM_OPTION in card.options else (False,)


def _chosen(
    card: HarnessCard, options: Mapping[str, str], dialect: Dialect, streamed: bool
) -> dict[str, str]:
    named = {registry.DIALECT_OPTION: str(dialect)} if registry.DIALECT_OPTION in card.options else {}
    return {**options, **named, **({STREAM_OPTION: "true"} if streamed else {})}


@dataclass
class _Ended:
    """Knows when all but the attempt to be cancelled have ended (a `RunEvents`)."""

    left: int
    others: asyncio.Event = field(default_factory=asyncio.Event)

    def attempt_started(self, run_id: str, cell_id: str, task_id: str) -> None:
        """See `RunEvents`."""

    def attempt_ended(self, run_id: str, cell_id: str, trace: TaskTrace, retried: bool) -> None:
        """See `RunEvents`."""
        self.left -= 1
        if self.left == 1:
            self.others.set()

    def graded(self, run_id: str, cell_id: str, verdict: Grade) -> None:
        """See `RunEvents`."""


@dataclass(frozen=True)
class _ProbeRun:
    """One experiment with the probe, in a folder of its own."""

    card: HarnessCard
    folder: Path
    options: Mapping[str, str]
    limits: Limits
    sampling: Sampling
    placement: Placement

    async def attempts(self, *cells: tuple[str, Sequence[Probe]]) -> list[dict[str, Attempt]]:
        """Run these models on these probes; gives the attempts of each, by probe."""
        await asyncio.to_thread(self.folder.mkdir)
        asked = RunOptions(
            benchmarks=(ProbeBenchmark.card.name,),
            harnesses=(self.card.name,),
            models=tuple(model for model, _ in cells),
            limits=self.limits,
            sampling=self.sampling,
            harness_options=self.options,
            workers=self.placement.workers,
            concurrency=self.placement.concurrency,
            python=self.placement.python,
            retries=0,
        )
        benchmarks = [ProbeBenchmark() for _ in cells]
        chosen = [
            (self._pairing(benchmark, model), [probe.task for probe in probes])
            for benchmark, (model, probes) in zip(benchmarks, cells, strict=True)
        ]
        check_ready([pairing for pairing, _ in chosen])
        planned = await asyncio.to_thread(freeze, asked, chosen, os.environ)
        ended = _Ended(len(planned.slots))
        with Store.open(f"sqlite:///{self.folder / 'atp.db'}") as store:
            await store.create_experiment(
                planned.experiment, [cell.row for cell in planned.cells], planned.slots
            )
            run = Run(store, fresh(planned), asked, os.environ, self.folder / "logs", ended)
            cancelling = asyncio.create_task(_cancel(run, benchmarks[0], ended))
            try:
                async with held(store, planned.experiment.id):
                    await run.run()
            finally:
                cancelling.cancel()
            return await asyncio.to_thread(self._gathered, store, planned.experiment.id, benchmarks)

    def _pairing(self, benchmark: ProbeBenchmark, model: str) -> registry.Pairing:
        return registry.pair(
            benchmark.card.name,
            benchmark,
            self.card,
            ModelRef.parse(model),
            harness_options=self.options,
            python=self.placement.python,
            in_process=self.placement.workers == 0,
        )

    def _gathered(
        self, store: Store, experiment_id: str, benchmarks: Sequence[ProbeBenchmark]
    ) -> list[dict[str, Attempt]]:
        log = list(read_wire_log(self.folder / "logs" / "wire.jsonl"))
        found: list[dict[str, Attempt]] = [{} for _ in benchmarks]
        places = {cell.id: cell.index for cell in store.cells(experiment_id)}
        for row in store.attempts(experiment_id):
            if row.trace is None:
                raise InfrastructureError(f"the attempt {row.run_id} at {row.slot.task_id!r} has not ended")
            place, name = places[row.slot.cell_id], row.slot.task_id
            path = f"/s/{row.run_id}/"
            found[place][name] = Attempt(
                probe=PROBES[name],
                trace=row.trace,
                grade=row.grade,
                requests=tuple(_requests(self.card, log, row.run_id)),
                late_requests=sum(
                    line["session"] is None and str(line["path"]).startswith(path) for line in log
                ),
                spans=tuple(store.spans(row.run_id)),
                bodies=store.bodies(row.run_id),
                environment=benchmarks[place].environments[name][0],
            )
        return found


async def _cancel(run: Run, benchmark: ProbeBenchmark, ended: _Ended) -> None:
    # An interrupt ends everything that runs, so it comes when that is one attempt.
    await benchmark.waiting.wait()
    await ended.others.wait()
    run.interrupt()
    run.interrupt()


def _requests(card: HarnessCard, log: Sequence[Mapping[str, Any]], run_id: str) -> Iterator[WireRequest]:
    idiom = idiom_named(card.idiom)
    for line in log:
        rest = split_path(str(line["path"]))[1]
        dialect = dialect_at(rest)
        body = line.get("body")
        if line["session"] != run_id or dialect is None or not isinstance(body, dict):
            continue
        try:
            view = DIALECTS[dialect].parse(orjson.dumps(body), rest)
        except Refusal:
            continue  # the endpoint has refused it too, which the attempt's end tells
        yield WireRequest(body, view, idiom.hear(view), line["response_id"], line["stream"])

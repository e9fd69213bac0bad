"""Running whole experiments in tests: real workers, a real endpoint, a real database file."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from atp.engine.experiment import resume, start
from atp.engine.options import RunOptions
from atp.engine.plan import plan
from atp.engine.results import results
from atp.engine.run import Run
from atp.protocol.spans import Span, SpanKind, SpanStatus
from atp.protocol.trace import Grade, TaskTrace
from atp.store.store import Store


@dataclass
class Watched:
    """What a run said while it went on (a `RunEvents`)."""

    started: list[str] = field(default_factory=list)
    ended: list[TaskTrace] = field(default_factory=list)
    grades: list[Grade] = field(default_factory=list)

    def attempt_started(self, run_id: str, cell_id: str, task_id: str) -> None:
        self.started.append(task_id)

    def attempt_ended(self, run_id: str, cell_id: str, trace: TaskTrace, retried: bool) -> None:
        self.ended.append(trace)

    def graded(self, run_id: str, cell_id: str, verdict: Grade) -> None:
        self.grades.append(verdict)


class Lab:
    """A database in a folder of its own, and experiments run into it."""

    def __init__(self, folder: Path) -> None:
        self.url = f"sqlite:///{folder / 'atp.db'}"
        self.watched = Watched()

    async def run(
        self,
        benchmark: str = "ledger",
        harness: str = "thinloop",
        models: Sequence[str] = ("scripted/oracle",),
        environ: Mapping[str, str] = os.environ,
        on_start: Any = None,
        **options: Any,
    ) -> dict[str, Any]:
        """Run an experiment and give its results."""
        asked = RunOptions(
            benchmarks=(benchmark,),
            harnesses=(harness,),
            models=tuple(models),
            **{"count": 4, "retries": 0, **options},
        )
        planned = plan(asked, environ, self.url)
        self.watched = Watched()
        with Store.open(self.url) as store:
            await start(store, planned, self.watched, on_start or _ignore)
        return self.results(planned.experiment.id)

    async def resume(
        self, experiment: str | None = None, *, allow_drift: bool = False, **changes: Any
    ) -> dict[str, Any]:
        """Resume an experiment and give its results."""
        self.watched = Watched()
        with Store.open(self.url) as store:
            changes = {"retries": 0, **changes}
            experiment_id = await resume(
                store, experiment, changes, self.watched, _ignore, allow_drift=allow_drift
            )
        return self.results(experiment_id)

    def results(self, experiment_id: str) -> dict[str, Any]:
        """The results of a stored experiment."""
        with Store.open(self.url, readonly=True) as store:
            return results(store, experiment_id)

    def spans(self, run_id: str) -> list[Span]:
        """The spans of a run."""
        with Store.open(self.url, readonly=True) as store:
            return store.spans(run_id)

    def open_spans(self, kind: SpanKind) -> list[Span]:
        """The spans of a kind that are open right now, in the newest experiment."""
        with Store.open(self.url, readonly=True) as store:
            attempts = store.attempts(store.experiment().id)
            spans = [span for attempt in attempts for span in store.spans(attempt.run_id)]
        return [span for span in spans if span.kind is kind and span.status is SpanStatus.OPEN]

    def bodies(self, run_id: str) -> dict[str, Any]:
        """All bodies that the run's spans name."""
        with Store.open(self.url, readonly=True) as store:
            return store.bodies(run_id)


async def until(condition: Any, seconds: float = 30.0) -> None:
    """Wait until `condition()` holds; a test that waits in vain fails."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.02)


def _ignore(run: Run) -> None:
    """Nobody interrupts."""

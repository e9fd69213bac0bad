"""Running an experiment: its open slots through workers, what ended through graders."""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from atp.engine.attempt import Attempt, AttemptPlan, failed
from atp.engine.grading import grade
from atp.engine.holder import holder, is_gone
from atp.engine.model_sources import ModelSource, ProviderSource, ScriptedSource
from atp.engine.options import RunOptions
from atp.engine.own_agents import SDK_OPTION
from atp.engine.pool import WorkerPool
from atp.engine.pressure import TOO_MANY_REQUESTS, Gate
from atp.models.providers import provider_endpoint
from atp.models.scripted.endpoint import ScriptedEndpoint
from atp.protocol.errors import StoreError
from atp.protocol.status import ErrorInfo, classify
from atp.protocol.task import TaskInput
from atp.protocol.trace import Grade, TaskTrace
from atp.registry import Pairing
from atp.store.rows import AttemptStart
from atp.store.store import Store

GRADERS = 4
"""Grades computed at once, apart from the attempts."""
INTERRUPT_GRACE = 30.0
"""Seconds that running attempts get to end after a first interrupt."""
LEASE = 30.0
"""Seconds an engine's claim on an experiment lasts without being renewed."""
RETRY_DELAY = 0.5
"""Seconds before a slot's second try, doubled for each further one; more where a provider asks for it."""


class RunEvents(Protocol):
    """Who wants to see a run go on."""

    def attempt_started(self, run_id: str, cell_id: str, task_id: str) -> None:
        """A try begins."""

    def attempt_ended(self, run_id: str, cell_id: str, trace: TaskTrace, retried: bool) -> None:
        """A try ended; `retried` says that another follows."""

    def graded(self, run_id: str, cell_id: str, verdict: Grade) -> None:
        """A grade is stored."""


@dataclass(frozen=True)
class OpenSlot:
    """A slot that has no gradable attempt yet."""

    slot_id: str
    cell_id: str
    task: TaskInput
    tries: int
    """Tries made before."""


@dataclass(frozen=True)
class Ungraded:
    """A gradable attempt without a score."""

    run_id: str
    cell_id: str
    task: TaskInput
    trace: TaskTrace


@dataclass(frozen=True)
class Work:
    """What there is to do for an experiment."""

    experiment_id: str
    pairings: Mapping[str, Pairing]
    """By cell id."""
    slots: Sequence[OpenSlot]
    ungraded: Sequence[Ungraded] = ()


class Run:
    """One engine's work on one experiment.

    Args:
        store: Open for writing.
        work: What to do.
        options: How.
        environ: Where provider keys and base URLs are looked up.
        logs: Folder for the logs of workers and endpoint.
        events: Who watches.
    """

    def __init__(
        self,
        store: Store,
        work: Work,
        options: RunOptions,
        environ: Mapping[str, str],
        logs: Path,
        events: RunEvents,
    ) -> None:
        self._store = store
        self._work = work
        self._options = options
        self._environ = environ
        self._logs = logs
        self._events = events
        self._plans: dict[str, AttemptPlan] = {}
        self._stopping = asyncio.Event()
        self._open = deque(work.slots)
        self._running: set[Attempt] = set()
        self._graders = asyncio.Semaphore(GRADERS)
        self._grace: asyncio.TimerHandle | None = None
        self.interrupted = False

    async def run(self) -> None:
        """Do all of it, or what is left to do once interrupted.

        Raises:
            StoreError: Another engine holds the experiment, or the store failed.
            InfrastructureError: The scripted endpoint could not be started.
        """
        self._logs.mkdir(parents=True, exist_ok=True)
        try:
            async with self._lease(), AsyncExitStack() as stack:
                await self._prepare(stack)
                await self._do()
        except ExceptionGroup as group:
            raise group.exceptions[0] from group
        finally:
            if self._grace is not None:
                self._grace.cancel()

    async def _do(self) -> None:
        async with asyncio.TaskGroup() as group:
            for ungraded in self._work.ungraded:
                group.create_task(self._grade(ungraded))
            for _ in range(min(self._options.concurrency, len(self._open))):
                group.create_task(self._run_slots(group))

    def interrupt(self) -> None:
        """The first time: start nothing more, and cancel after a grace time. Then: cancel at once."""
        self._open.clear()
        self._stopping.set()
        for plan in self._plans.values():
            plan.gate.shut()
        if self.interrupted:
            self._cancel_all()
        else:
            self.interrupted = True
            self._grace = asyncio.get_running_loop().call_later(INTERRUPT_GRACE, self._cancel_all)

    def _cancel_all(self) -> None:
        for attempt in self._running:
            attempt.cancel()

    async def _run_slots(self, group: asyncio.TaskGroup) -> None:
        while self._open:
            ended = await self._run_slot(self._next_slot())
            if ended is not None:
                group.create_task(self._grade(ended))

    def _next_slot(self) -> OpenSlot:
        """The first that could start at once, else the first: one endpoint's pressure is not another's."""
        ready = (slot for slot in self._open if self._plans[slot.cell_id].gate.is_open)
        slot = next(ready, self._open[0])
        self._open.remove(slot)
        return slot

    async def _run_slot(self, slot: OpenSlot) -> Ungraded | None:
        plan = self._plans[slot.cell_id]
        for number in range(slot.tries + 1, slot.tries + 2 + self._options.retries):
            if not await plan.gate.enter():
                break
            try:
                trace, again = await self._try(slot, number, plan)
            finally:
                plan.gate.leave()
            if trace.status is not None and trace.status.gradable:
                return Ungraded(str(trace.run_id), slot.cell_id, slot.task, trace)
            if not again:
                break
            await self._pause(retry_delay(number - slot.tries, trace.error))
        return None

    async def _try(self, slot: OpenSlot, number: int, plan: AttemptPlan) -> tuple[TaskTrace, bool]:
        """One try at a slot; gives what came of it, and whether another one follows."""
        attempt = Attempt(_run_id(), secrets.token_hex(16), slot.task, plan)
        row = AttemptStart(attempt.run_id, slot.slot_id, number, attempt.trace_id, datetime.now(UTC))
        begun = asyncio.ensure_future(self._store.begin_attempt(row))
        self._events.attempt_started(attempt.run_id, slot.cell_id, slot.task.task_id)
        self._running.add(attempt)
        try:
            trace = await attempt.run(begun)
            await begun  # what kept it from beginning ends the experiment, not the attempt
        finally:
            self._running.discard(attempt)
        trace = await self._end(attempt, trace)
        if trace.error is not None and trace.error.http_status == TOO_MANY_REQUESTS:
            # Also where the instrument sees no single tries.
            plan.gate.refused(attempt.last_call_ns, trace.error.retry_after)
        again = (
            not self.interrupted
            and number <= slot.tries + self._options.retries
            and trace.error is not None
            and trace.status is not None
            and not trace.status.gradable
            and classify(trace.error).retry
        )
        self._events.attempt_ended(attempt.run_id, slot.cell_id, trace, again)
        return trace, again

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), seconds)

    async def _end(self, attempt: Attempt, trace: TaskTrace) -> TaskTrace:
        """Store the end of an attempt; gives the trace as stored."""
        if attempt.worker_gone:
            await self._store.abort_open_spans(attempt.run_id)
        try:
            await self._store.end_attempt(attempt.run_id, trace)
        except StoreError as error:
            if error.code != "records_refused":
                raise
            trace = failed(trace, error)
            await self._store.end_attempt(attempt.run_id, trace)
        return trace

    async def _grade(self, item: Ungraded) -> None:
        async with self._graders:
            verdict = await grade(self._work.pairings[item.cell_id].benchmark, item.task, item.trace)
        await self._store.add_grade(item.run_id, verdict)
        self._events.graded(item.run_id, item.cell_id, verdict)

    async def _prepare(self, stack: AsyncExitStack) -> None:
        pools: dict[tuple[str, Path], WorkerPool] = {}
        gates: dict[str, Gate] = {}
        endpoint: ScriptedEndpoint | None = None
        wanted = {slot.cell_id for slot in self._open}
        pairings = {cell: pairing for cell, pairing in self._work.pairings.items() if cell in wanted}
        if any(pairing.model.simulated for pairing in pairings.values()):
            endpoint = await ScriptedEndpoint.start(self._logs / "wire.jsonl")
            stack.push_async_callback(endpoint.stop)
        for cell_id, pairing in pairings.items():
            python = pairing.environment.python
            assert python is not None  # a ready pairing has an interpreter
            key = (pairing.harness.name, python)
            if key not in pools:
                pools[key] = WorkerPool(
                    pairing.harness, python, self._options.workers, self._logs, self._store.record_soon
                )
                stack.push_async_callback(pools[key].stop)
            source = self._source(pairing, endpoint)
            self._plans[cell_id] = AttemptPlan(
                benchmark=pairing.benchmark,
                card=pairing.harness,
                model=str(pairing.model),
                pool=pools[key],
                source=source,
                gate=gates.setdefault(source.address, Gate(self._options.concurrency)),
                store=self._store,
                sampling=self._options.sampling,
                limits=self._options.limits,
                options=self._harness_options(pairing),
                monitored=self._options.monitored,
            )

    def _harness_options(self, pairing: Pairing) -> dict[str, str]:
        options = dict(self._options.harness_options)
        if pairing.harness.factory is not None:
            options.pop(SDK_OPTION, None)  # has been taken into account
        return options

    def _source(self, pairing: Pairing, endpoint: ScriptedEndpoint | None) -> ModelSource:
        assert pairing.dialect is not None  # a ready pairing has one
        if endpoint is not None and pairing.model.simulated:
            return ScriptedSource(endpoint, pairing.model, pairing.harness.idiom, pairing.dialect)
        return ProviderSource(
            provider_endpoint(pairing.model, pairing.dialect, self._options.base_url, self._environ)
        )

    @asynccontextmanager
    async def _lease(self) -> AsyncIterator[None]:
        experiment, name = self._work.experiment_id, holder()
        await self._store.acquire_lease(experiment, name, LEASE, is_gone)
        renewing = asyncio.create_task(self._renew(experiment, name))
        try:
            yield
        finally:
            renewing.cancel()
            await self._store.release_lease(experiment, name)

    async def _renew(self, experiment: str, name: str) -> None:
        while True:
            await asyncio.sleep(LEASE / 3)
            await self._store.renew_lease(experiment, name, LEASE)


def retry_delay(tries: int, error: ErrorInfo | None) -> float:
    """Seconds to wait before the next try.

    Args:
        tries: Tries made now, at least 1.
        error: What ended the last one; a provider may have asked for more time.
    """
    asked = error.retry_after if error is not None and error.retry_after is not None else 0.0
    return max(RETRY_DELAY * 2.0 ** (tries - 1), asked)


def _run_id() -> str:
    return f"run-{secrets.token_hex(6)}"

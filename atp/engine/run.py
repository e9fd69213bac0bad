"""Running an experiment: its open slots through workers, what ended through graders."""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Protocol

from atp.engine.attempt import Attempt, AttemptPlan, failed
from atp.engine.benchmark_worker import benchmark_workers
from atp.engine.budget import BUDGET_SET, BUDGET_SPENT, Budget
from atp.engine.grading import grade
from atp.engine.model_sources import (
    ModelSource,
    ProviderSource,
    ReplaySource,
    ScriptedSource,
    user_source,
)
from atp.engine.options import RunOptions
from atp.engine.own_agents import SDK_OPTION
from atp.engine.pool import WorkerPool
from atp.engine.pressure import TOO_MANY_REQUESTS, Gate
from atp.engine.recordings import Recordings
from atp.engine.spending import Prices
from atp.engine.user_model import UserPlan
from atp.models.providers import provider_endpoint
from atp.models.scripted.endpoint import ScriptedEndpoint
from atp.protocol.errors import StoreError
from atp.protocol.status import classify, retry_delay
from atp.protocol.task import TaskInput
from atp.protocol.trace import Grade, TaskTrace
from atp.registry import Pairing
from atp.store.rows import AttemptStart
from atp.store.store import Store

GRADERS = 4
"""Grades computed at once, apart from the attempts."""
INTERRUPT_GRACE = 30.0
"""Seconds that running attempts get to end after a first interrupt."""


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
    repeat: int
    """Which of the task's slots, from 0."""
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
    prices: Mapping[str, Prices]
    """By cell id, as frozen."""
    ungraded: Sequence[Ungraded] = ()
    spent: Decimal = Decimal(0)
    """USD of the attempts made before; counted where there is a budget."""


class Run:
    """One engine's work on one experiment, whose lease it holds (`atp.engine.lease`).

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
        self._open = deque(work.slots)
        self._running: set[Attempt] = set()
        self._graders = asyncio.Semaphore(GRADERS)
        self._grading: set[asyncio.Task[None]] = set()
        self._grace: asyncio.TimerHandle | None = None
        self._interrupted = asyncio.Event()
        self._cancelled = False
        self._budget = Budget(options.budget, work.spent)

    async def run(self) -> None:
        """Do all of it, or what is left to do once interrupted.

        Raises:
            StoreError: The store failed, or another engine has taken the experiment over.
            InfrastructureError: The scripted endpoint could not be started.
        """
        self._logs.mkdir(parents=True, exist_ok=True)
        try:
            benchmarks = [pairing.benchmark for pairing in self._work.pairings.values()]
            async with (
                benchmark_workers(benchmarks, self._logs, self._store.redactor),
                AsyncExitStack() as stack,
            ):
                if self._budget.most is not None:
                    await self._store.note(BUDGET_SET, self._work.experiment_id, {"usd": self._budget.most})
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
                self._begin_grading(group, ungraded)
            for _ in range(min(self._options.concurrency, len(self._open))):
                group.create_task(self._run_slots(group))

    def interrupt(self) -> None:
        """The first time: start nothing more, and cancel after a grace time. Then: cancel at once.

        A grade that is cancelled is given on resume.
        """
        self._open.clear()
        for plan in self._plans.values():
            plan.gate.shut()
        if self._interrupted.is_set():
            self._cancel_all()
        else:
            self._interrupted.set()
            self._grace = asyncio.get_running_loop().call_later(INTERRUPT_GRACE, self._cancel_all)

    def _cancel_all(self) -> None:
        self._cancelled = True
        for attempt in self._running:
            attempt.cancel()
        for grading in self._grading:
            grading.cancel()

    async def _run_slots(self, group: asyncio.TaskGroup) -> None:
        while self._open:
            if not self._affordable():
                await self._stop_for_budget()
                return
            ended = await self._run_slot(self._next_slot())
            if ended is not None:
                self._begin_grading(group, ended)

    def _affordable(self) -> bool:
        return self._budget.allows_more(attempt.spent for attempt in self._running)

    async def _stop_for_budget(self) -> None:
        self._open.clear()
        spent = {"usd": self._budget.most, "spent": float(self._budget.spent)}
        await self._store.note(BUDGET_SPENT, self._work.experiment_id, spent)

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
                if not self._affordable():  # any more: what waited at the gate has not begun
                    self._open.appendleft(slot)
                    break
                trace, again = await self._try(slot, number, plan)
            finally:
                plan.gate.leave()
            if trace.status is not None and trace.status.gradable:
                return Ungraded(str(trace.run_id), slot.cell_id, slot.task, trace)
            if not again or await self._interrupted_within(retry_delay(number - slot.tries, trace.error)):
                break
        return None

    async def _try(self, slot: OpenSlot, number: int, plan: AttemptPlan) -> tuple[TaskTrace, bool]:
        """One try at a slot; gives what came of it, and whether another one follows."""
        attempt = Attempt(_run_id(), secrets.token_hex(16), slot.task, slot.repeat, plan)
        row = AttemptStart(attempt.run_id, slot.slot_id, number, attempt.trace_id, datetime.now(UTC))
        begun = asyncio.ensure_future(self._store.begin_attempt(row))
        self._events.attempt_started(attempt.run_id, slot.cell_id, slot.task.task_id)
        self._running.add(attempt)
        try:
            trace = await attempt.run(begun)
            await begun  # what kept it from beginning ends the experiment, not the attempt
        finally:
            self._running.discard(attempt)
            self._budget.settle(attempt.spent)
        trace = await self._end(attempt, trace)
        if trace.error is not None and trace.error.http_status == TOO_MANY_REQUESTS:
            # Also where the instrument sees no single tries.
            plan.gate.refused(attempt.last_call_ns, trace.error.retry_after)
        again = (
            not self._interrupted.is_set()
            and number <= slot.tries + self._options.retries
            and self._affordable()
            and trace.error is not None
            and trace.status is not None
            and not trace.status.gradable
            and classify(trace.error).retry
        )
        self._events.attempt_ended(attempt.run_id, slot.cell_id, trace, again)
        return trace, again

    async def _interrupted_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                return await self._interrupted.wait()
        except TimeoutError:
            return False

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

    def _begin_grading(self, group: asyncio.TaskGroup, item: Ungraded) -> None:
        if not self._cancelled:
            grading = group.create_task(self._grade(item))
            self._grading.add(grading)
            grading.add_done_callback(self._grading.discard)

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
        if any(pairing.simulated for pairing in pairings.values()):
            endpoint = await ScriptedEndpoint.start(self._logs / "wire.jsonl")
            stack.push_async_callback(endpoint.stop)
        user = await self._user_plan(stack, pairings.values(), endpoint)
        for cell_id, pairing in pairings.items():
            python = pairing.environment.python
            assert python is not None  # a ready pairing has an interpreter
            key = (pairing.harness.name, python)
            if key not in pools:
                pools[key] = WorkerPool(
                    pairing.harness,
                    python,
                    self._options.workers,
                    self._logs,
                    self._store.record_soon,
                    self._store.redactor,
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
                prices=self._work.prices[cell_id],
                budgeted=self._budget.most is not None,
                user=user,
            )

    async def _user_plan(
        self, stack: AsyncExitStack, pairings: Iterable[Pairing], endpoint: ScriptedEndpoint | None
    ) -> UserPlan | None:
        model = next((pairing.user_model for pairing in pairings), None)
        if model is None:
            return None
        # Here, since its HTTP library is slow to import and most runs have no such user.
        from atp.models.chat_client import MODEL_TIMEOUT, ChatClient

        client = ChatClient(self._options.limits.model_timeout or MODEL_TIMEOUT)
        await stack.enter_async_context(client)
        base_url = self._options.user_base_url or self._options.base_url
        return UserPlan(str(model), user_source(model, endpoint, base_url, self._environ), client)

    def _harness_options(self, pairing: Pairing) -> dict[str, str]:
        options = dict(self._options.harness_options)
        if pairing.harness.factory is not None:
            options.pop(SDK_OPTION, None)  # has been taken into account
        return options

    def _source(self, pairing: Pairing, endpoint: ScriptedEndpoint | None) -> ModelSource:
        assert pairing.dialect is not None  # a ready pairing has one
        if endpoint is not None and pairing.model.replayed is not None:
            stored = Recordings(self._store, pairing.model, pairing.benchmark_name, pairing.harness.name)
            return ReplaySource(endpoint, stored, pairing.model, pairing.harness.idiom, pairing.dialect)
        if endpoint is not None and pairing.model.simulated:
            return ScriptedSource(endpoint, pairing.model, pairing.harness.idiom, pairing.dialect)
        return ProviderSource(
            provider_endpoint(pairing.model, pairing.dialect, self._options.base_url, self._environ)
        )


def _run_id() -> str:
    return f"run-{secrets.token_hex(6)}"

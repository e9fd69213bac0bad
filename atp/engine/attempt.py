"""One attempt: a fresh world, a model, a worker, the hard limits, and what comes of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeVar

from atp.engine.door import CallStore, Door
from atp.engine.model_sources import ModelSession, ModelSource
from atp.engine.pool import WorkerPool
from atp.engine.pressure import Gate
from atp.engine.workers import Worker
from atp.protocol.benchmark import Benchmark
from atp.protocol.cards import HarnessCard
from atp.protocol.environment import Environment, UserTurn
from atp.protocol.errors import BenchmarkError
from atp.protocol.model import Limits, Sampling
from atp.protocol.records import ModelCallRecord
from atp.protocol.spans import Actor, SpanEnd, SpanKind, SpanStart
from atp.protocol.status import ErrorInfo, Status, StopReason, classify
from atp.protocol.task import TaskInput
from atp.protocol.trace import RecordCheck, TaskTrace, Usage
from atp.worker.link import Message
from atp.worker.messages import Outcome, StartAttempt, WireEndpoint
from monitor.records import compare, model_calls, rejected_calls

_T = TypeVar("_T")

SETUP_TIMEOUT = 300.0
"""Seconds a benchmark may take to open an environment."""
CANCEL_GRACE = 5.0
"""Seconds an attempt may take to end once cancelled; then its worker is killed."""


@dataclass(frozen=True)
class AttemptPlan:
    """All that an attempt of one cell needs, the task aside."""

    benchmark: Benchmark
    card: HarnessCard
    model: str
    pool: WorkerPool
    source: ModelSource
    gate: Gate
    store: CallStore
    sampling: Sampling
    limits: Limits
    options: dict[str, str]
    monitored: bool


class Attempt:
    """Runs one try at one task.

    Args:
        run_id: Its identity.
        trace_id: 32 hexadecimal digits.
        task: With its gold, which stays here.
        plan: What the cell says.
    """

    def __init__(self, run_id: str, trace_id: str, task: TaskInput, plan: AttemptPlan) -> None:
        self.run_id = run_id
        self.trace_id = trace_id
        self._task = task
        self._plan = plan
        self._loop = asyncio.get_running_loop()
        self._door: Door | None = None
        self._worker: Worker | None = None
        self._fired: StopReason | None = None
        self._timers: list[asyncio.TimerHandle] = []
        self._answering: set[asyncio.Task[object]] = set()
        self._model_starts = 0
        self._model_ends: list[SpanEnd] = []
        self._tokens = 0
        self._elapsed: float | None = None

    async def run(self, begun: Awaitable[None]) -> TaskTrace:
        """Run to the end; never raises for what goes wrong in the run itself.

        Args:
            begun: Done when the beginning is stored; the harness starts only then.
        """
        started_at = datetime.now(UTC)
        outcome: Outcome | None = None
        failure: Exception | None = None
        endpoint_log: list[ModelCallRecord] | None = None
        environment: Environment | None = None
        try:
            environment = await self._open_environment()
            session = await self._plan.source.open(self.run_id, self._task)
            try:
                await begun
                outcome = await self._agent_phase(environment, session)
            finally:
                log = await session.close()
                endpoint_log = None if log is None else list(log)
        except Exception as error:  # noqa: BLE001  the status table says what it makes of the run
            failure = error
        finally:
            await self._settle()
            if environment is not None:
                failure = await _close(environment) or failure
        return self._complete(started_at, outcome, failure, endpoint_log)

    @property
    def worker_gone(self) -> bool:
        """Whether its worker died with it, so that spans it had open will never end."""
        return self._worker is not None and not self._worker.alive

    @property
    def last_call_ns(self) -> int:
        """When its last model call that has ended began, in nanoseconds since 1970; 0 without any."""
        return self._model_ends[-1].start.start_ns if self._model_ends else 0

    def cancel(self) -> None:
        """End the attempt: `cancelled`."""
        self._fire(StopReason.CANCELLED)

    # AttemptHandler

    async def tool_call(self, request: Message) -> Message:
        """See `AttemptHandler.tool_call`."""
        assert self._door is not None  # a worker calls only after its start message
        return await self._tracked(self._door.call(request))

    async def user_turn(self, text: str | None) -> UserTurn:
        """See `AttemptHandler.user_turn`."""
        assert self._door is not None
        return await self._tracked(self._door.user_turn(text))

    def span_started(self, record: SpanStart) -> None:
        """See `AttemptHandler.span_started`."""
        if record.kind is SpanKind.MODEL:
            self._model_starts += 1
            most = self._plan.limits.max_turns
            if most is not None and self._model_starts > most + self._plan.card.extra_calls_at_limit:
                self._fire(StopReason.MAX_TURNS)

    def span_ended(self, record: SpanEnd) -> None:
        """See `AttemptHandler.span_ended`."""
        if record.start.kind is not SpanKind.MODEL:
            return
        self._model_ends.append(record)
        self._plan.gate.heard(record)
        most = self._plan.limits.max_total_tokens
        if most is not None:
            [call] = model_calls([record])
            self._tokens += (call.usage.input_tokens or 0) + (call.usage.output_tokens or 0)
            if self._tokens > most:
                self._fire(StopReason.MAX_TOTAL_TOKENS)

    async def _tracked(self, work: Awaitable[_T]) -> _T:
        task = asyncio.current_task()
        assert task is not None
        self._answering.add(task)
        try:
            return await work
        finally:
            self._answering.discard(task)
            if self._door is not None and self._door.failure is not None:
                self._stop_worker()

    async def _open_environment(self) -> Environment:
        try:
            environment = self._plan.benchmark.environment(self._task)
            async with asyncio.timeout(SETUP_TIMEOUT):
                await environment.open()
        except Exception as error:
            raise BenchmarkError(
                f"the environment could not be opened: {type(error).__name__}: {error}"
            ) from error
        self._door = Door(self.run_id, self.trace_id, environment, self._plan.store)
        return environment

    async def _agent_phase(self, environment: Environment, session: ModelSession) -> Outcome:
        self._worker = await self._plan.pool.worker()
        if self._plan.limits.deadline is not None:
            self._timers.append(
                self._loop.call_later(self._plan.limits.deadline, self._fire, StopReason.DEADLINE)
            )
        if self._fired is not None:
            return Outcome(run_id=self.run_id, cancelled=True, elapsed=0.0)
        started = time.monotonic()
        try:
            return await self._worker.run(self._start_message(environment, session), self)
        finally:
            self._elapsed = time.monotonic() - started
            for timer in self._timers:
                timer.cancel()

    def _start_message(self, environment: Environment, session: ModelSession) -> StartAttempt:
        plan = self._plan
        return StartAttempt(
            run_id=self.run_id,
            trace_id=self.trace_id,
            harness=plan.card.name,
            runner=plan.card.runner,
            instrument=plan.card.instrument if plan.monitored else None,
            factory=plan.card.factory,
            task=self._task.for_agent(),
            system_prompt=environment.system_prompt,
            tools=tuple(environment.tools),
            has_user=environment.user is not None,
            workspace=environment.workspace,
            model=WireEndpoint.of(session.endpoint),
            sampling=plan.sampling,
            limits=plan.limits,
            options=plan.options,
        )

    def _fire(self, reason: StopReason) -> None:
        if self._fired is None:
            self._fired = reason
            self._stop_worker()

    def _stop_worker(self) -> None:
        if self._worker is not None:
            worker = self._worker
            worker.cancel(self.run_id)
            self._timers.append(
                self._loop.call_later(
                    CANCEL_GRACE, worker.kill, f"attempt {self.run_id} did not end when cancelled"
                )
            )

    async def _settle(self) -> None:
        answering = list(self._answering)
        for task in answering:
            task.cancel()
        if answering:
            await asyncio.gather(*answering, return_exceptions=True)

    def _complete(
        self,
        started_at: datetime,
        outcome: Outcome | None,
        failure: Exception | None,
        endpoint_log: list[ModelCallRecord] | None,
    ) -> TaskTrace:
        reported = (outcome.trace if outcome else None) or TaskTrace()
        calls = model_calls(self._model_ends)
        status, stop_reason, error = self._verdict(outcome, failure, calls)
        own = [call for call in calls if call.actor == Actor.AGENT and call.answered]
        return reported.model_copy(
            update={
                "run_id": self.run_id,
                "trace_id": self.trace_id,
                "task_id": self._task.task_id,
                "harness": self._plan.card.name,
                "versions": self._versions(),
                "model_asked": self._plan.model,
                "model_answered": own[-1].model if own else None,
                "status": status,
                "stop_reason": stop_reason,
                "turns": len(own) if self._plan.monitored else None,
                "tool_calls": self._door.calls if self._door else (),
                "usage": Usage.total(call.usage for call in own) or Usage(),
                "started_at": started_at,
                "elapsed": self._elapsed,
                "checks": self._checks(endpoint_log, calls, outcome),
                "monitored": self._plan.monitored,
                "error": error,
            }
        )

    def _checks(
        self,
        endpoint_log: list[ModelCallRecord] | None,
        calls: list[ModelCallRecord],
        outcome: Outcome | None,
    ) -> RecordCheck:
        own_agent = self._plan.card.factory is not None
        check = compare(
            endpoint_log,
            calls if self._plan.monitored else None,
            self._door.calls if self._door else None,
            outcome.trace if outcome else None,
            rejected=rejected_calls(self._model_ends),
            owned_tools=self._tools_of_the_agent(calls) if own_agent else self._plan.card.owned_tools,
            calls_by_code=own_agent,
        )
        if outcome is None or not outcome.recorder_failures:
            return check
        note = f"the recorder failed {outcome.recorder_failures} times; the events of the root span say where"
        return check.model_copy(update={"agree": False, "differences": (*check.differences, note)})

    def _tools_of_the_agent(self, calls: list[ModelCallRecord]) -> frozenset[str]:
        # A user's own agent has tools that no card lists: handoffs, sub-agents, tools of its own.
        given = self._door.tool_names if self._door is not None else frozenset()
        return frozenset(name for call in calls for _, name in call.tool_calls) - given

    def _verdict(
        self, outcome: Outcome | None, failure: Exception | None, calls: list[ModelCallRecord]
    ) -> tuple[Status, StopReason, ErrorInfo | None]:
        if self._door is not None and self._door.failure is not None:
            failure = self._door.failure
        error = ErrorInfo.of(failure) if failure else outcome.error if outcome else None
        if self._fired is StopReason.CANCELLED:
            return Status.CANCELLED, self._fired, error
        if self._fired is StopReason.DEADLINE and calls and not any(call.answered for call in calls):
            # It says nothing about the agent that the provider let all of its time pass.
            what = f"no model call was answered before the deadline of {self._plan.limits.deadline:g} s"
            return _judged(ErrorInfo.of(TimeoutError(what)))
        if self._fired is not None:
            return Status.LIMIT, self._fired, error
        if error is not None:
            return _judged(error)
        if outcome is None or outcome.trace is None:
            return Status.INTERRUPTED, StopReason.INTERRUPTED, None
        reason = outcome.trace.stop_reason or StopReason.ANSWERED
        return reason.status, reason, None

    def _versions(self) -> dict[str, str]:
        packages = self._worker.packages if self._worker else {}
        names = (self._plan.card.package, self._plan.card.distribution)
        return {name: packages[name] for name in names if name in packages}


def failed(trace: TaskTrace, failure: Exception) -> TaskTrace:
    """The same trace, of a run that something ended after all."""
    status, stop_reason, error = _judged(ErrorInfo.of(failure))
    return trace.model_copy(update={"status": status, "stop_reason": stop_reason, "error": error})


def _judged(error: ErrorInfo) -> tuple[Status, StopReason, ErrorInfo]:
    verdict = classify(error)
    return (
        verdict.status,
        verdict.stop_reason,
        error.model_copy(update={"fault": verdict.fault, "unclassified": verdict.unclassified}),
    )


async def _close(environment: Environment) -> BenchmarkError | None:
    try:
        async with asyncio.timeout(SETUP_TIMEOUT):
            await environment.close()
    except Exception as error:  # noqa: BLE001  becomes the attempt's failure
        return BenchmarkError(f"the environment could not be closed: {type(error).__name__}: {error}")
    return None

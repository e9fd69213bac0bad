"""One attempt: a fresh world, a model, a worker, the hard limits, and what comes of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Protocol, TypeVar

from atp.engine.deadline import Deadline
from atp.engine.door import CallStore, Door
from atp.engine.last_reply import with_last_reply
from atp.engine.limits import HardLimits
from atp.engine.model_sources import ModelSession, ModelSource
from atp.engine.pool import WorkerPool
from atp.engine.pressure import Gate
from atp.engine.spending import Prices, Spending
from atp.engine.user_model import SpanStore, UserModel, UserPlan
from atp.engine.workers import Worker
from atp.protocol.benchmark import Benchmark
from atp.protocol.cards import HarnessCard
from atp.protocol.environment import Environment, UserTurn
from atp.protocol.errors import AtpError, BenchmarkError, InfrastructureError, InvalidInput
from atp.protocol.model import Limits, Sampling
from atp.protocol.records import ModelCallRecord
from atp.protocol.spans import Actor, SpanEnd, SpanKind, SpanStart
from atp.protocol.status import ErrorInfo, Status, StopReason, classify
from atp.protocol.task import TaskInput
from atp.protocol.trace import RecordCheck, TaskTrace, Usage
from atp.worker.link import Message
from atp.worker.messages import Outcome, StartAttempt, WireEndpoint
from monitor.records import Code, Nature, compare, difference, model_calls, rejected_calls

_T = TypeVar("_T")

SETUP_TIMEOUT = 300.0
"""Seconds a benchmark may take to open an environment."""
CANCEL_GRACE = 5.0
"""Seconds an attempt may take to end once cancelled; then its worker is killed."""


class _CancelledEarly(Exception):
    """Cancelled before its agent began."""


class AttemptStore(SpanStore, CallStore, Protocol):
    """Where calls and spans go; `atp.store.store.Store` is one."""


@dataclass(frozen=True)
class AttemptPlan:
    """All that an attempt of one cell needs, the task aside."""

    benchmark: Benchmark
    card: HarnessCard
    model: str
    pool: WorkerPool
    source: ModelSource
    gate: Gate
    store: AttemptStore
    sampling: Sampling
    limits: Limits
    options: dict[str, str]
    monitored: bool
    prices: Prices
    budgeted: bool = False
    """Whether the experiment has a budget, for which every cost has to be known."""
    user: UserPlan | None = None
    """The model that plays the user; None where the benchmark's own user stays."""


class Attempt:
    """Runs one try at one task.

    Args:
        run_id: Its identity.
        trace_id: 32 hexadecimal digits.
        task: With its gold, which stays here.
        repeat: Which of the task's slots, from 0.
        plan: What the cell says.
    """

    def __init__(self, run_id: str, trace_id: str, task: TaskInput, repeat: int, plan: AttemptPlan) -> None:
        self.run_id = run_id
        self.trace_id = trace_id
        self._task = task
        self._repeat = repeat
        self._plan = plan
        self._loop = asyncio.get_running_loop()
        self._door: Door | None = None
        self._worker: Worker | None = None
        self._user: UserModel | None = None
        self._fired: StopReason | None = None
        self._stopping = False
        self._set_up: asyncio.Timeout | None = None
        self._harness_runs = False
        self._over_for_good = False
        self._timers: list[asyncio.TimerHandle] = []
        self._answering: set[asyncio.Task[object]] = set()
        self._model_ends: list[SpanEnd] = []
        self._spending = Spending(plan.prices)
        self._limits = HardLimits(plan.limits, plan.card.extra_calls_at_limit, self._spending, plan.budgeted)
        self._deadline = Deadline(plan.limits.deadline, lambda: self._fire(StopReason.DEADLINE))

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
            environment = await self._opened()
            session = await self._plan.source.open(self.run_id, self._task, self._repeat)
            try:
                await begun
                outcome = await self._agent_phase(environment, session)
            finally:
                log = await session.close()
                endpoint_log = None if log is None else list(log)
        except _CancelledEarly:
            pass  # its status says it
        except Exception as error:  # noqa: BLE001  the status table says what it makes of the run
            failure = error
        finally:
            self._over_for_good = True
            await self._settle()
            if environment is not None:
                failure = await _close(environment) or failure
            failure = await self._close_user() or failure
        return self._complete(started_at, outcome, failure, endpoint_log)

    @property
    def worker_gone(self) -> bool:
        """Whether its worker died with it, so that spans it had open will never end."""
        return self._worker is not None and not self._worker.alive

    @property
    def spent(self) -> Decimal:
        """USD that its model calls are known to have cost so far, whoever made them."""
        return self._spending.known

    @property
    def last_call_ns(self) -> int:
        """When its last model call that has ended began, in nanoseconds since 1970; 0 without any."""
        return self._model_ends[-1].start.start_ns if self._model_ends else 0

    def cancel(self) -> None:
        """End the attempt: `cancelled`. One whose agent has ended, or a second time, changes nothing."""
        if self._over_for_good or self._fired is not None:
            return
        self._fire(StopReason.CANCELLED)
        if self._set_up is not None:
            self._set_up.reschedule(self._loop.time())

    # AttemptHandler

    async def tool_call(self, request: Message) -> Message:
        """See `AttemptHandler.tool_call`."""
        assert self._door is not None  # a worker calls only after its start message
        door = self._door
        return await self._tracked(lambda: door.call(request))

    async def user_turn(self, text: str | None, parent_id: str) -> UserTurn:
        """See `AttemptHandler.user_turn`."""
        assert self._door is not None
        door = self._door
        if self._user is not None:
            self._user.parent_id = parent_id
        with self._deadline.held():
            return await self._tracked(lambda: door.user_turn(text))

    def span_started(self, record: SpanStart) -> None:
        """See `AttemptHandler.span_started`."""
        if record.kind is not SpanKind.MODEL:
            return
        broken = self._limits.started(record)
        if broken is not None:
            self._fire(broken)
        elif self._over:
            self._stop_worker()

    def span_ended(self, record: SpanEnd) -> None:
        """See `AttemptHandler.span_ended`."""
        if record.start.kind is not SpanKind.MODEL:
            return
        self._model_ends.append(record)
        self._plan.gate.heard(record)
        self._deadline.add(record)
        broken = self._limits.ended(record)
        self._fired = self._fired or broken
        if self._over and not self._stopping:
            # The call that broke the limit may have been the last: its answer still counts.
            if self._answering:
                self._stop_worker()
            else:
                self._timers.append(self._loop.call_later(CANCEL_GRACE, self._stop_worker))

    @property
    def _over(self) -> bool:
        """Whether the agent may do nothing more: a limit has fired, or cannot be held any longer."""
        return self._fired is not None or self._limits.not_held is not None

    async def _tracked(self, work: Callable[[], Awaitable[_T]]) -> _T:
        task = asyncio.current_task()
        assert task is not None
        self._answering.add(task)
        try:
            if not self._over:
                result = await work()
            if not self._over:
                return result
            self._stop_worker()
            await asyncio.Event().wait()  # never answered: cancelled with the attempt
            raise AssertionError("nobody sets the event")
        finally:
            self._answering.discard(task)
            if self._door is not None and self._door.failure is not None:
                self._stop_worker()

    async def _opened(self) -> Environment:
        """Set-up, which may take minutes.

        Raises:
            _CancelledEarly: The attempt was cancelled meanwhile.
        """
        try:
            async with asyncio.timeout(None) as self._set_up:
                return await self._open_environment()
        except TimeoutError:
            if self._fired is None:
                raise  # a limit of the benchmark's own
            raise _CancelledEarly from None
        finally:
            self._set_up = None

    async def _open_environment(self) -> Environment:
        if self._plan.user is not None:
            self._user = await self._plan.user.open(
                self.run_id,
                self.trace_id,
                self._task,
                self._repeat,
                self._plan.store,
                self._spending.add,
            )
        environment: Environment | None = None
        try:
            environment = self._plan.benchmark.environment(self._task)
            environment.user_model = self._user
            async with _limited("opened"):
                await environment.open()
        except BaseException as error:
            if environment is not None:
                await _close(environment)
            if not isinstance(error, Exception):
                raise
            raise _set_up_failure("opened", error) from error
        self._door = Door(self.run_id, self.trace_id, environment, self._plan.store)
        return environment

    async def _agent_phase(self, environment: Environment, session: ModelSession) -> Outcome:
        self._worker = await self._plan.pool.worker()
        if self._fired is not None:
            return Outcome(run_id=self.run_id, cancelled=True, elapsed=0.0)
        self._deadline.start()
        self._harness_runs = True
        try:
            return await self._worker.run(self._start_message(environment, session), self)
        finally:
            self._harness_runs, self._over_for_good = False, True
            self._deadline.end()
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
            tool_errors=environment.tool_errors,
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
        if self._worker is not None and self._harness_runs and not self._stopping:
            self._stopping = True
            worker = self._worker
            worker.cancel(self.run_id)
            self._timers.append(
                self._loop.call_later(
                    CANCEL_GRACE, worker.kill, f"attempt {self.run_id} did not end when cancelled"
                )
            )

    async def _close_user(self) -> Exception | None:
        if self._user is not None:
            try:
                await self._user.close()
            except Exception as error:  # noqa: BLE001  the status table says what it makes of the run
                return error
        return None

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
                "user_turns": self._user.turns if self._user else None,
                "user_usage": self._user.usage if self._user else None,
                "cost": _usd(self._spending.cost),
                "costs_of_others": {a: _usd(cost) for a, cost in self._spending.costs_of_others.items()},
                "started_at": started_at,
                "elapsed": self._deadline.elapsed,
                "time_lost": self._deadline.lost if self._plan.monitored else None,
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
        check = compare(
            endpoint_log,
            calls if self._plan.monitored else None,
            self._door.calls if self._door else None,
            outcome.trace if outcome else None,
            rejected=rejected_calls(self._model_ends) | (self._door.raised if self._door else frozenset()),
            altered=self._door.altered if self._door else (),
            nature=Nature.of(self._plan.card, self._tools_of_the_agent(calls)),
        )
        if self._user is not None:
            check = self._user.compared(check)
        if outcome is None or not outcome.recorder_failures:
            return check
        note = difference(
            Code.RECORDER_FAILED, f"{outcome.recorder_failures} times; the events of the root span say where"
        )
        return check.model_copy(update={"agree": False, "differences": (*check.differences, note)})

    def _tools_of_the_agent(self, calls: list[ModelCallRecord]) -> frozenset[str]:
        given = self._door.tool_names if self._door is not None else frozenset()
        on_wire = self._plan.card.tool_names_on_wire.on_wire
        given = frozenset(on_wire(name) for name in given)
        return frozenset(name for call in calls for _, name in call.tool_calls) - given

    def _verdict(
        self, outcome: Outcome | None, failure: Exception | None, calls: list[ModelCallRecord]
    ) -> tuple[Status, StopReason, ErrorInfo | None]:
        if self._door is not None and self._door.failure is not None:
            failure = self._door.failure
        error = ErrorInfo.of(failure) if failure else outcome.error if outcome else None
        if self._fired is StopReason.CANCELLED:
            return Status.CANCELLED, self._fired, error
        if self._fired is StopReason.DEADLINE and calls:
            # It says nothing about the agent that the provider let its time pass.
            what = f"the deadline of {self._plan.limits.deadline:g} s"
            if not any(call.answered for call in calls):
                return _judged(ErrorInfo.of(TimeoutError(f"no model call was answered before {what}")))
            if self._deadline.eaten:
                lost = f"failed tries of model calls took {self._deadline.lost:.3g} s of {what}"
                return _judged(ErrorInfo.of(TimeoutError(lost)))
        if self._fired is not None:
            return Status.LIMIT, self._fired, error
        if self._limits.not_held is not None:
            return _judged(ErrorInfo.of(InvalidInput(self._limits.not_held)))
        return _ended(outcome, error, self._model_ends if failure is None else ())

    def _versions(self) -> dict[str, str]:
        packages = self._worker.packages if self._worker else {}
        names = (self._plan.card.package, self._plan.card.distribution)
        return {name: packages[name] for name in names if name in packages}


def _ended(
    outcome: Outcome | None, error: ErrorInfo | None, model_ends: Sequence[SpanEnd]
) -> tuple[Status, StopReason, ErrorInfo | None]:
    """The verdict on a run that nothing of ours has ended."""
    trace = outcome.trace if outcome is not None else None
    reason = (trace.stop_reason if trace is not None else None) or StopReason.ANSWERED
    # A harness may take an answer that is no reply for the model's own failure, without raising.
    if error is not None or reason.status is Status.COMPLETED or reason is StopReason.HARNESS_ERROR:
        error = with_last_reply(error, model_ends)
    if error is not None:
        return _judged(error)
    if trace is None:
        return Status.INTERRUPTED, StopReason.INTERRUPTED, None
    return reason.status, reason, None


def _usd(cost: Decimal | None) -> float | None:
    return None if cost is None else float(cost)


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


async def _close(environment: Environment) -> AtpError | None:
    try:
        async with _limited("closed"):
            await environment.close()
    except Exception as error:  # noqa: BLE001  becomes the attempt's failure
        return _set_up_failure("closed", error)
    return None


@asynccontextmanager
async def _limited(what: str) -> AsyncIterator[None]:
    """Bounds set-up; a limit of the environment's own that was reached within says so itself."""
    try:
        async with asyncio.timeout(SETUP_TIMEOUT) as limit:
            yield
    except TimeoutError as error:
        if not limit.expired():
            raise
        raise BenchmarkError(f"the environment was not {what} within {SETUP_TIMEOUT:g} s") from error


def _set_up_failure(what: str, error: Exception) -> AtpError:
    # The worker that a benchmark lives in may die: that says nothing about the benchmark.
    if isinstance(error, InfrastructureError | BenchmarkError):
        return error
    return BenchmarkError(f"the environment could not be {what}: {type(error).__name__}: {error}")

"""The worker's side: runs attempts that the engine starts, or holds a benchmark."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import JsonValue, TypeAdapter

from atp.protocol.binding import AgentBinding, ToolResult
from atp.protocol.environment import UserTurn
from atp.protocol.errors import AgentError, BenchmarkError
from atp.protocol.runner import AgentRunner, RunContext
from atp.protocol.spans import Instrument, SpanHandle
from atp.protocol.status import ErrorInfo
from atp.protocol.trace import TaskTrace
from atp.worker.benchmark_host import BenchmarkHost
from atp.worker.factories import own_agent
from atp.worker.frames import Lane
from atp.worker.link import Link, Message
from atp.worker.loading import load
from atp.worker.messages import BENCHMARK_REQUESTS, Outcome, StartAttempt
from atp.worker.spans import SpanSender
from monitor.recorder import SpanRecorder
from monitor.task_messages import answered, asked
from monitor.vocabulary import OUTPUT

HEARTBEAT = 1.0
"""Seconds between two heartbeats."""

_USER_TURN: TypeAdapter[UserTurn] = TypeAdapter(UserTurn)


class WorkerHost:
    """Handles what the engine says and runs any number of attempts at once.

    Args:
        hello: What to tell the engine about this process.
        on_lost: Called when the engine is gone.
    """

    def __init__(self, hello: Mapping[str, Any], on_lost: Callable[[], None]) -> None:
        self._hello = hello
        self._on_lost = on_lost
        self._attempts: dict[str, asyncio.Task[None]] = {}
        self._background: set[asyncio.Task[None]] = set()
        self._link: Link
        self._spans: SpanSender
        self._benchmark: BenchmarkHost

    def attach(self, link: Link) -> None:
        """Say hello over the link and start the heartbeat."""
        self._link = link
        self._spans = SpanSender(link)
        self._benchmark = BenchmarkHost(link)
        link.send(Lane.CONTROL, {"type": "hello", **self._hello})
        self._keep(asyncio.create_task(self._beat()))

    def received(self, message: Message) -> None:
        """See `LinkHandler.received`."""
        match message["type"]:
            case "start":
                attempt = StartAttempt.model_validate(message["attempt"])
                task = asyncio.create_task(self._run(attempt), name=attempt.run_id)
                self._attempts[attempt.run_id] = task
                task.add_done_callback(self._ended)
            case "cancel":
                task_to_cancel = self._attempts.get(message["run_id"])
                if task_to_cancel is not None:
                    task_to_cancel.cancel()
            case request if request in BENCHMARK_REQUESTS:
                self._benchmark.received(message)
            case "stop":
                self._keep(asyncio.create_task(self._stop()))
            case unknown:
                raise ValueError(f"the engine sent a message of unknown type {unknown!r}")

    def lost(self, error: Exception | None) -> None:
        """See `LinkHandler.lost`."""
        for task in (*self._attempts.values(), *self._background):
            task.cancel()
        self._benchmark.lost()
        self._on_lost()

    def _ended(self, task: asyncio.Task[None]) -> None:
        run_id = task.get_name()
        del self._attempts[run_id]
        if not task.cancelled() and (error := task.exception()) is not None:
            # The attempt's own errors are in its outcome; this one kept it from having one.
            outcome = Outcome(run_id=run_id, error=ErrorInfo.of(error), elapsed=0.0)
            self._spans.finish(run_id, {"type": "outcome", "outcome": outcome})

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _beat(self) -> None:
        while not self._link.closed:
            self._link.send(Lane.CONTROL, {"type": "beat"})
            await asyncio.sleep(HEARTBEAT)

    async def _stop(self) -> None:
        if self._attempts:
            await asyncio.wait(self._attempts.values())
        self._link.close()

    async def _run(self, attempt: StartAttempt) -> None:
        sink = self._spans.sink(attempt.run_id)
        recorder = SpanRecorder(
            sink,
            attempt.run_id,
            trace_id=attempt.trace_id,
            name=attempt.harness,
            asked=asked(attempt.task.instruction),
        )
        trace: TaskTrace | None = None
        failure: BaseException | None = None
        started = time.monotonic()
        try:
            trace = await _run_harness(attempt, self._link, self._spans, recorder)
        except BaseException as error:  # noqa: BLE001  whatever a harness raises, SystemExit too, ends its attempt only
            failure = error
        elapsed = time.monotonic() - started
        cancelled = isinstance(failure, asyncio.CancelledError)
        if trace is not None and trace.final_answer is not None:
            recorder.root.set_messages(OUTPUT, answered(trace.final_answer))
        recorder.close(failure)
        outcome = Outcome(
            run_id=attempt.run_id,
            trace=trace,
            error=None if failure is None or cancelled else ErrorInfo.of(failure),
            cancelled=cancelled,
            elapsed=elapsed,
            recorder_failures=recorder.failures,
        )
        self._spans.finish(attempt.run_id, {"type": "outcome", "outcome": outcome})


async def _run_harness(
    attempt: StartAttempt, link: Link, spans: SpanSender, recorder: SpanRecorder
) -> TaskTrace:
    runner: AgentRunner = load(attempt.runner)()
    instrument: Instrument | None = load(attempt.instrument)(recorder) if attempt.instrument else None
    binding = AgentBinding(
        _LinkPort(attempt.run_id, link, spans, recorder),
        system_prompt=attempt.system_prompt,
        tools=attempt.tools,
        has_user=attempt.has_user,
        workspace=attempt.workspace,
        tool_errors=attempt.tool_errors,
    )
    context = RunContext(
        run_id=attempt.run_id,
        model=attempt.model.covered(),
        sampling=attempt.sampling,
        limits=attempt.limits,
        recorder=recorder,
        instrument=instrument,
        options=attempt.options,
        own_agent=own_agent(attempt.factory) if attempt.factory is not None else None,
    )
    try:
        with recorder.as_current(recorder.root.span_id):
            trace = await runner.run(attempt.task, binding, context)
        if not isinstance(trace, TaskTrace):
            raise AgentError(f"{attempt.runner} gave back {type(trace).__name__}, not a TaskTrace")
        return trace
    finally:
        if instrument is not None:
            instrument.close()


class _LinkPort:
    """The engine, as a binding sees it."""

    def __init__(self, run_id: str, link: Link, spans: SpanSender, recorder: SpanRecorder) -> None:
        self._run_id = run_id
        self._link = link
        self._spans = spans
        self._recorder = recorder

    async def call(
        self, name: str, arguments: JsonValue, call_id: str | None, parent: SpanHandle | None
    ) -> ToolResult:
        """See `BindingPort.call`."""
        parent_id, source = self._recorder.tool_parent(call_id, parent)
        span_id = self._recorder.allocate()
        self._spans.flush()  # what led to the call leaves this process with it
        with self._recorder.as_current(span_id):
            reply = await self._link.request(
                Lane.CALL,
                {
                    "type": "call",
                    "run_id": self._run_id,
                    "name": name,
                    "arguments": arguments,
                    "call_id": call_id,
                    "announced": self._recorder.announced_arguments(call_id, arguments),
                    "span_id": span_id,
                    "parent_id": parent_id,
                    "parent_source": source,
                },
            )
        return ToolResult.model_construct(value=reply["value"], error=reply["error"])

    async def user_open(self) -> UserTurn:
        """See `BindingPort.user_open`."""
        return await self._user(None)

    async def user_reply(self, text: str) -> UserTurn:
        """See `BindingPort.user_reply`."""
        return await self._user(text)

    async def _user(self, text: str | None) -> UserTurn:
        self._spans.flush()
        reply = await self._link.request(
            Lane.CALL,
            {
                "type": "user",
                "run_id": self._run_id,
                "text": text,
                "parent_id": self._recorder.root.span_id,
            },
        )
        if reply["error"] is not None:
            raise BenchmarkError(reply["error"])
        return _USER_TURN.validate_python(reply["turn"])

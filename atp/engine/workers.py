"""The engine's side of the link: workers, and the attempts that run in them."""

from __future__ import annotations

import asyncio
import importlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from atp.engine.worker_process import WorkerProcess
from atp.protocol.cards import HarnessCard, WorkerSpec
from atp.protocol.environment import UserTurn
from atp.protocol.errors import LinkBroken, WorkerDied
from atp.protocol.redaction import Redactor
from atp.protocol.spans import SpanEnd, SpanStart
from atp.worker.frames import VERSION, Lane
from atp.worker.hello import hello
from atp.worker.host import WorkerHost
from atp.worker.link import Link, Message, connect, memory_pair
from atp.worker.messages import Outcome, StartAttempt, unpack_end, unpack_start

HEARTBEAT_TIMEOUT = 60.0
"""Seconds without a heartbeat, or any other message, after which a worker counts as hung and is killed."""
HELLO_TIMEOUT = 60.0
"""Seconds a worker process may take until it says hello."""
_LOOKS = 10
STOP_TIMEOUT = 5.0
"""Seconds an idle worker may take to end by itself before it is killed."""

RecordSpans = Callable[
    [Mapping[str, bytes], Sequence[SpanStart], Sequence[SpanEnd], Sequence[str]], asyncio.Future[None]
]
"""Store bodies, starts and ends of some runs that came together, in the order of the calls; the future is
done when they are durable."""


class AttemptHandler(Protocol):
    """What a running attempt offers to its worker."""

    async def tool_call(self, request: Message) -> Message:
        """Execute and record a tool call; gives `value` and `error`."""

    async def user_turn(self, text: str | None, parent_id: str) -> UserTurn:
        """The user's turn; None opens the conversation. `parent_id` is the attempt's root span."""

    def span_started(self, record: SpanStart) -> None:
        """A span of the attempt has started."""

    def span_ended(self, record: SpanEnd) -> None:
        """A span of the attempt has ended."""


class Worker:
    """One worker, in a process of its own or in this one.

    Args:
        name: For messages: `langgraph-1`.
        record: Where span batches go.
    """

    def __init__(self, name: str, record: RecordSpans) -> None:
        self.name = name
        self.packages: Mapping[str, str] = {}
        self._record = record
        self._link: Link
        self._process: WorkerProcess | None = None
        self._hello = asyncio.get_running_loop().create_future()
        self._silent_looks = 0
        self._attempts: dict[str, tuple[AttemptHandler, asyncio.Future[Outcome]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._dying = False
        self._dead: WorkerDied | None = None

    @property
    def load(self) -> int:
        """Attempts running in it."""
        return len(self._attempts)

    @property
    def alive(self) -> bool:
        """Whether it takes attempts."""
        return not self._dying

    async def start_process(
        self, python: Path, log: Path, card: HarnessCard | WorkerSpec, redactor: Redactor
    ) -> None:
        """Start it as a process, with the variables and the modules that the card names.

        Raises:
            WorkerDied: It ended, or did not say hello in time; names its log.
        """
        self._process = WorkerProcess(python, log, card.environment, redactor, card.preload)
        self._link = await connect(self._process.socket, self)
        try:
            await asyncio.wait_for(asyncio.shield(self._hello), HELLO_TIMEOUT)
        except TimeoutError:
            self.kill(f"said no hello within {HELLO_TIMEOUT:g} s")
            await self._hello
        self._keep(self._watch_heartbeat())

    async def start_in_memory(self, card: HarnessCard) -> None:
        """Start it in this process, over the in-memory link.

        The card's variables are set in this process and stay: an SDK reads them when it is imported.
        """
        os.environ.update(card.environment)
        for module in card.preload:
            importlib.import_module(module)
        host = WorkerHost(hello(), on_lost=lambda: None)
        self._link, theirs = memory_pair(self, host)
        host.attach(theirs)
        await self._hello

    async def run(self, attempt: StartAttempt, handler: AttemptHandler) -> Outcome:
        """Run an attempt to its end.

        Raises:
            WorkerDied: The worker ended first.
        """
        if self._dying:
            raise self._dead or WorkerDied(f"worker {self.name} is ending")
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._attempts[attempt.run_id] = (handler, future)
        self._link.send(Lane.CONTROL, {"type": "start", "attempt": attempt})
        try:
            return await future
        except asyncio.CancelledError:
            self.cancel(attempt.run_id)  # nobody waits for it: it must not go on asking its model
            raise
        finally:
            self._attempts.pop(attempt.run_id, None)

    async def ask(self, message: Message) -> Message:
        """Send a worker that holds a benchmark a request; gives its reply.

        Raises:
            WorkerDied: The worker ended first.
        """
        try:
            return await self._link.request(Lane.CALL, message)
        except LinkBroken:
            if not self._link.closed:
                raise
        while self._dead is None:
            await asyncio.sleep(0.01)
        raise self._dead

    def cancel(self, run_id: str) -> None:
        """Ask the worker to cancel an attempt; its outcome still arrives."""
        self._link.send(Lane.CONTROL, {"type": "cancel", "run_id": run_id})

    def kill(self, why: str) -> None:
        """End the worker at once, with every process it has started."""
        self._die(f"was killed: {why}")

    async def stop(self) -> None:
        """End it when its attempts have ended."""
        if self._hello.done() and not self._dying:  # before its hello there is nobody to ask
            self._link.send(Lane.CONTROL, {"type": "stop"})
            deadline = time.monotonic() + STOP_TIMEOUT
            while self._dead is None and time.monotonic() < deadline:
                await asyncio.sleep(0.01)
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._process is not None:
            await asyncio.to_thread(self._process.close)

    # LinkHandler

    def received(self, message: Message) -> None:
        """See `LinkHandler.received`."""
        self._silent_looks = 0
        match message["type"]:
            case "beat":
                pass
            case "hello":
                self._greet(message)
            case "outcome":
                outcome = Outcome.model_validate(message["outcome"])
                entry = self._attempts.get(outcome.run_id)
                if entry is not None and not entry[1].done():
                    entry[1].set_result(outcome)
            case "spans":
                self._store_spans(message)
            case "call":
                self._keep(self._answer_call(message))
            case "user":
                self._keep(self._answer_user(message))
            case unknown:
                self._die(f"sent a message of unknown type {unknown!r}")

    def lost(self, error: Exception | None) -> None:
        """See `LinkHandler.lost`."""
        self._die(f"broke the link: {error}" if error else "ended")

    def _greet(self, message: Message) -> None:
        if message["version"] != VERSION:
            self._die(f"speaks link version {message['version']}, not {VERSION}; make its environment anew")
            return
        self.packages = message["packages"]
        if not self._hello.done():
            self._hello.set_result(None)

    def _store_spans(self, message: Message) -> None:
        bodies = {digest: text.encode() for digest, text in message["bodies"]}
        starts = [unpack_start(packed) for packed in message["starts"]]
        ends = [unpack_end(packed) for packed in message["ends"]]
        for record in starts:
            if entry := self._attempts.get(record.run_id):
                entry[0].span_started(record)
        for end in ends:
            if entry := self._attempts.get(end.start.run_id):
                entry[0].span_ended(end)
        stored = self._record(bodies, starts, ends, message["runs"])
        stored.add_done_callback(partial(self._acknowledge, message))

    def _acknowledge(self, message: Message, stored: asyncio.Future[None]) -> None:
        # Of a refusal the worker is told, and the store, which knows it, lets none of the runs end well.
        failure = stored.exception()
        error = None if failure is None else str(failure) or type(failure).__name__
        self._link.reply(Lane.CONTROL, message, {"error": error})

    async def _answer_call(self, message: Message) -> None:
        handler = self._handler(message)
        if handler is not None:
            self._link.reply(Lane.CALL, message, await handler.tool_call(message))

    async def _answer_user(self, message: Message) -> None:
        handler = self._handler(message)
        if handler is None:
            return
        try:
            turn = await handler.user_turn(message["text"], message["parent_id"])
        except Exception as failure:  # noqa: BLE001  whatever the benchmark raised ends the attempt
            self._link.reply(Lane.CALL, message, {"error": str(failure), "turn": None})
        else:
            self._link.reply(Lane.CALL, message, {"error": None, "turn": turn.model_dump()})

    def _handler(self, message: Message) -> AttemptHandler | None:
        entry = self._attempts.get(message["run_id"])
        return entry[0] if entry else None  # an attempt that is over gets no more answers

    def _keep(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _watch_heartbeat(self) -> None:
        # Looks are counted, not seconds: an engine that was stopped itself has not looked.
        while not self._dying:
            await asyncio.sleep(HEARTBEAT_TIMEOUT / _LOOKS)
            self._silent_looks += 1
            if self._silent_looks > _LOOKS:
                self._die(f"gave no sign of life for {HEARTBEAT_TIMEOUT:g} s")

    def _die(self, how: str) -> None:
        if not self._dying:
            self._dying = True
            self._keep(self._bury(how))

    async def _bury(self, how: str) -> None:
        # Attempts hear of it only when every process of the worker is gone: a further try must not
        # run beside what is left of the one before.
        where = ""
        if self._process is not None:
            code = await asyncio.to_thread(self._process.kill)
            where = f" (exit code {code}); its log is {self._process.log}"
        self._dead = WorkerDied(f"worker {self.name} {how}{where}")
        for _, future in self._attempts.values():
            if not future.done():
                future.set_exception(self._dead)
        if not self._hello.done():
            self._hello.set_exception(self._dead)

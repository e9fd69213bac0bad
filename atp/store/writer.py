"""The one thread of a process that writes.

Durable means acknowledged: what waits for an operation goes on only after its COMMIT. An operation
that is not urgent may lie in the queue for `DELAY` seconds, so that many share one commit; an urgent
one commits at once, and everything queued before it goes along. Operations are written in the order
in which they came. When a transaction fails, its operations are tried again one by one, so only the
bad one fails; the runs whose records it held are known as incomplete to all that is written after
it. The event loop is entered once per commit, however many operations that commit settled.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from sqlalchemy import Connection

from atp.protocol.errors import AtpError, StoreError
from atp.store.bodies import BodyRow, body_row
from atp.store.database import Database, refusal
from atp.store.leases import refuse_if_lost
from atp.store.operations import Operation, write_records
from atp.store.redacting import StoreRedaction
from atp.store.rows import Pressure
from atp.store.statements import compile_statements

DELAY = 0.02
"""Seconds that an operation without urgency may lie in the queue."""

HIGH_RECORDS = 16_384
HIGH_BYTES = 64 << 20
"""Above either, `ready` waits until half of it is written."""

_COMMIT_RECORDS = 4096  # bounds how long other processes wait for the write lock
_RECENT_BODIES = 65_536  # digests known to be stored; repeating one of them costs a look-up
_RECORD_BYTES = 1024

Failures: TypeAlias = list[AtpError]
"""Where the errors go of operations that nobody waits for."""

Ask: TypeAlias = Operation | Callable[[], Operation]
"""An operation, or what makes one on the writer's thread, where encoding holds nobody up."""


@dataclass(slots=True)
class _Item:
    ask: Ask
    size: int
    failures: Failures
    loop: asyncio.AbstractEventLoop | None = None
    future: asyncio.Future[Any] | None = None
    urgent: bool = False
    operation: Operation | None = None
    rows: list[BodyRow] = field(default_factory=list)
    result: Any = None
    error: AtpError | None = None


class Writer:
    """Queue and thread over the writing connection of a database."""

    def __init__(self, database: Database, redaction: StoreRedaction) -> None:
        if database.writing is None:
            raise StoreError(f"{database.path} was opened for reading")
        self.failures: Failures = []
        """Errors of posted operations that had no list of their own, and of waits that were given up."""
        self.incomplete: dict[str, AtpError] = {}
        """Run -> why the first of its records that was refused was; the writer's thread fills it."""
        self.held: dict[str, str] = {}
        """Experiment -> holder, the leases that have to be there for anything to be written."""
        self._database = database
        self._redaction = redaction
        self._engine = database.writing
        self._statements = compile_statements(database.writing.dialect)
        self._recent: OrderedDict[str, None] = OrderedDict()
        self._pid = os.getpid()
        self._wake = threading.Condition(threading.Lock())
        self._queue: list[_Item] = []
        self._urgent = False
        self._asleep = False
        self._oldest = 0.0
        self._closing = False
        self._records = 0
        self._bytes = 0
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []
        self._thread = threading.Thread(target=self._run, name="atp-store-writer", daemon=True)
        self._thread.start()

    def post(self, ask: Ask, size: int = 0, failures: Failures | None = None) -> None:
        """Queue an operation that nobody waits for.

        Args:
            ask: The operation.
            size: Bytes of its bodies, for the account of what is pending.
            failures: Gets the error if it fails; else `self.failures` does.

        Raises:
            StoreError: The writer is closed, or belongs to another process.
        """
        self._put(_Item(ask, size + _RECORD_BYTES, self.failures if failures is None else failures))

    def submit(self, ask: Ask, size: int = 0, *, urgent: bool = True) -> asyncio.Future[Any]:
        """Queue an operation and give its result; called on an event loop.

        Args:
            ask: The operation.
            size: Bytes of its bodies.
            urgent: Commit at once, else within `DELAY`.

        Returns:
            What the operation's transaction returned, once it is durable. Giving up the wait does not
            take the operation back.

        Raises:
            StoreError: See `post`; the future raises it when the database refused the operation, or
                what the operation itself raised.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self._put(_Item(ask, size + _RECORD_BYTES, self.failures, loop, future, urgent))
        return future

    def pressure(self) -> Pressure:
        """What is queued or being written."""
        with self._wake:
            return Pressure(self._records, self._bytes)

    async def ready(self) -> None:
        """Wait until there is room: at once below the high marks, else until half is written."""
        self._check_process()
        with self._wake:
            if self._records < HIGH_RECORDS and self._bytes < HIGH_BYTES:
                return
            loop = asyncio.get_running_loop()
            future: asyncio.Future[None] = loop.create_future()
            self._waiting.append((loop, future))
        await future

    def close(self) -> None:
        """Write what is queued and end the thread. Blocks until then; a second time does nothing."""
        self._check_process()
        with self._wake:
            self._closing = True
            self._wake.notify()
        self._thread.join()

    def _put(self, item: _Item) -> None:
        self._check_process()
        with self._wake:
            if self._closing:
                raise StoreError(f"the store {self._database.path} is closed")
            if not self._queue:
                self._oldest = time.monotonic()
            self._queue.append(item)
            self._records += 1
            self._bytes += item.size
            self._urgent = self._urgent or item.urgent
            # A thread that still dozes after its last commit looks by itself, within DELAY.
            if item.urgent or self._asleep or len(self._queue) == _COMMIT_RECORDS:
                self._wake.notify()

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise StoreError(
                f"the store {self._database.path} was opened by process {self._pid}: "
                f"a forked process, such as {os.getpid()}, opens its own"
            )

    def _run(self) -> None:
        in_hand: Sequence[_Item] = ()
        try:
            with self._engine.connect() as connection:
                while in_hand := self._take():
                    self._write(connection, in_hand)
                    self._settle(in_hand)
        except BaseException as error:
            self._abandon(StoreError(f"the writer of {self._database.path} ended: {error!r}"), in_hand)
            raise

    def _abandon(self, error: StoreError, in_hand: Sequence[_Item]) -> None:
        """Nobody may wait for a thread that is gone."""
        with self._wake:
            self._closing = True
            items, self._queue = [*in_hand, *self._queue], []
        for item in items:
            item.error = error
        self._settle(items)

    def _take(self) -> list[_Item]:
        """Wait for work; nothing comes back once the writer is closed and all is written."""
        with self._wake:
            while not self._urgent and not self._closing and len(self._queue) < _COMMIT_RECORDS:
                if not self._queue:
                    self._doze()
                    continue
                left = self._oldest + DELAY - time.monotonic()
                if left <= 0:
                    break
                self._wake.wait(left)
            items, self._queue = self._queue[:_COMMIT_RECORDS], self._queue[_COMMIT_RECORDS:]
            self._urgent = any(item.urgent for item in self._queue)
            return items

    def _doze(self) -> None:
        """Wait for work; at first so that what is not urgent costs nobody a system call to wake us."""
        self._wake.wait(DELAY)
        if not self._queue and not self._closing:
            self._asleep = True
            self._wake.wait()
            self._asleep = False

    def _write(self, connection: Connection, items: Sequence[_Item]) -> None:
        prepared = [item for item in items if self._prepare(item)]
        if not prepared:
            return
        try:
            begun = connection.begin()
        except Exception as error:  # the driver's, or SQLAlchemy's
            connection.rollback()
            why = self._refusal(error)
            for item in prepared:
                self._refuse(item, why)
            return
        try:
            self._execute(connection, prepared)
            begun.commit()
        except Exception as error:  # whatever it is belongs to whoever asked
            begun.rollback()
            if len(prepared) > 1:
                for item in prepared:
                    self._write(connection, [item])
            else:
                self._refuse(prepared[0], self._refusal(error))
        else:
            self._remember(prepared)

    def _prepare(self, item: _Item) -> bool:
        """Everything that needs no transaction: encode, redact, deflate, write files. Once per item."""
        if item.operation is not None:
            return True
        try:
            asked = item.ask if isinstance(item.ask, Operation) else item.ask()
            item.operation = operation = self._redaction.operation(asked)
            item.rows = [
                body_row(digest, content, self._database.bodies)
                for digest, content in operation.bodies
                if digest not in self._recent
            ]
        except Exception as error:  # as above
            self._refuse(item, self._refusal(error))
            return False
        return True

    def _execute(self, connection: Connection, items: Sequence[_Item]) -> None:
        if not all(item.operation is not None and item.operation.claims for item in items):
            refuse_if_lost(connection, self.held)
        rows = {row[0]: row for item in items for row in item.rows}
        self._statements.body.run(connection, list(rows.values()))
        together: list[Operation] = []
        for item in items:
            operation = item.operation
            if operation is None:
                raise RuntimeError("an operation was to be written before it was made")
            together.append(operation)
            if operation.transaction is not None:
                write_records(connection, self._statements, together)
                together = []
                item.result = operation.transaction(connection)
        write_records(connection, self._statements, together)

    def _remember(self, items: Sequence[_Item]) -> None:
        for item in items:
            for row in item.rows:
                self._recent[row[0]] = None
        while len(self._recent) > _RECENT_BODIES:
            self._recent.popitem(last=False)

    def _refuse(self, item: _Item, error: AtpError) -> None:
        item.error = error
        if item.operation is not None:
            for run_id in item.operation.recorded_runs():
                self.incomplete.setdefault(run_id, error)

    def _refusal(self, error: Exception) -> AtpError:
        if isinstance(error, AtpError):
            return error
        return refusal(self._database.path, error)

    def _settle(self, items: Sequence[_Item]) -> None:
        by_loop: dict[asyncio.AbstractEventLoop, list[_Item]] = defaultdict(list)
        for item in items:
            if item.loop is not None:
                by_loop[item.loop].append(item)
            elif item.error is not None:
                item.failures.append(item.error)
        with self._wake:
            self._records -= len(items)
            self._bytes -= sum(item.size for item in items)
            room = self._records <= HIGH_RECORDS // 2 and self._bytes <= HIGH_BYTES // 2
            relieved, self._waiting = (self._waiting, []) if room else ([], self._waiting)
        for loop, settled in by_loop.items():
            self._call(loop, _resolve, settled)
        for loop, future in relieved:
            self._call(loop, _relieve, future)

    def _call(self, loop: asyncio.AbstractEventLoop, function: Callable[[Any], None], argument: Any) -> None:
        try:
            loop.call_soon_threadsafe(function, argument)
        except RuntimeError:
            # The loop is closed: its waits are over, but what failed is still worth a word.
            if function is _resolve:
                self.failures.extend(item.error for item in argument if item.error is not None)


def _resolve(items: Sequence[_Item]) -> None:
    for item in items:
        future = item.future
        if future is None or future.done():  # done: cancelled by whoever waited
            if item.error is not None:
                item.failures.append(item.error)
        elif item.error is not None:
            future.set_exception(item.error)
        else:
            future.set_result(item.result)


def _relieve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)

"""The store as the engine uses it: `StoreReader`'s questions, and everything that writes.

Nothing that its redactor takes for a secret is written (`atp.protocol.redaction`).

What is written is written in the order of the calls. An `async` method returns when what it wrote is
durable: committed, and safe from the death of this process. A `post_*` method returns at once. What is
refused raises `StoreError`, and nothing of it is stored. A store whose lease another engine has taken
over writes nothing more: all that it is asked to write raises `lease_lost`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from sqlalchemy import Connection

from atp.protocol.errors import AtpError, StoreError
from atp.protocol.redaction import Redactor
from atp.protocol.spans import SpanEnd, SpanStart
from atp.protocol.trace import Grade, TaskTrace, ToolCall
from atp.store import attempts, evidence, experiments, journal, leases, summaries
from atp.store.database import Database, open_database
from atp.store.operations import Operation, call_row
from atp.store.reader import StoreReader
from atp.store.redacting import StoreRedaction
from atp.store.rows import (
    AttemptStart,
    CellRow,
    CellTotals,
    ExperimentRow,
    NewSlot,
    Pressure,
    TokenTotals,
)
from atp.store.writer import Failures, Writer


class Store(StoreReader):
    """An open database. One per process; safe to use from its threads, useless after a fork."""

    def __init__(self, database: Database, redaction: StoreRedaction, writer: Writer | None) -> None:
        super().__init__(database)
        self._redaction = redaction
        self._writer = writer
        self._holders: dict[str, str] = {} if writer is None else writer.held

    @classmethod
    def open(cls, url: str, readonly: bool = False, redactor: Redactor | None = None) -> Self:
        """Open a database; blocks for a few milliseconds, for a new one about a second.

        Args:
            url: `sqlite:///relative.db` or `sqlite:////absolute.db`.
            readonly: Only ask. Creates nothing, and needs no right to write.
            redactor: Decides what is secret and not stored as it is; by default one that knows the
                secret variables of this process.

        Raises:
            InvalidInput: The URL is not one of a SQLite file, or the file is not ATP's.
            NotReady: There is no database to read, or its folder is missing.
            StoreError: A newer version of ATP made it, or SQLite refused.
        """
        database = open_database(url, readonly=readonly)
        redaction = StoreRedaction(Redactor.of_environment() if redactor is None else redactor)
        return cls(database, redaction, None if readonly else Writer(database, redaction))

    @property
    def redactor(self) -> Redactor:
        """Decides what is secret. What it learns before it is met is found from then on."""
        return self._redaction.redactor

    def close(self) -> None:
        """Write what is queued and let go of the file. Blocks until then.

        Raises:
            StoreError: Records that nobody waited for could not be stored.
        """
        if self._writer is not None:
            self._writer.close()
        self._database.dispose()
        if self._writer is not None:
            raise_failures(self._writer.failures)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except StoreError as failure:
            if error is None:
                raise
            error.add_note(str(failure))  # what ended the work tells more than what it left unwritten

    async def create_experiment(
        self, experiment: ExperimentRow, cells: Sequence[CellRow], slots: Sequence[NewSlot]
    ) -> None:
        """Store an experiment with all of its cells, slots and tasks."""
        await self.writer.submit(lambda: experiments.creation(experiment, cells, slots, self._redaction))

    async def mark_mixed(
        self, experiment_id: str, cell_ids: Sequence[str], differences: Sequence[str]
    ) -> None:
        """Mark cells as made of unlike attempts.

        Args:
            experiment_id: The experiment.
            cell_ids: Which of its cells.
            differences: What changed, for the journal.
        """
        await self.writer.submit(
            lambda: experiments.mixing(experiment_id, cell_ids, differences, self._redaction)
        )

    async def acquire_lease(
        self,
        experiment_id: str,
        holder: str,
        ttl_s: float,
        is_gone: Callable[[str], bool] = lambda _: False,
    ) -> tuple[str, ...]:
        """Take an experiment's lease; attempts that an engine now gone left running become interrupted.

        Args:
            experiment_id: The experiment.
            holder: Who takes it; unique to an engine.
            ttl_s: Seconds it lives unless renewed.
            is_gone: Whether a present holder is known to be dead; nobody is by default.

        Returns:
            The run ids that became interrupted.

        Raises:
            NotReady: `lease_held`: another holder is alive.
        """

        def transaction(connection: Connection) -> tuple[str, ...]:
            return leases.acquire(connection, experiment_id, holder, ttl_s, is_gone)

        interrupted: tuple[str, ...] = await self.writer.submit(
            Operation(transaction=transaction, claims=True)
        )
        self._holders[experiment_id] = holder
        return interrupted

    async def renew_lease(self, experiment_id: str, holder: str, ttl_s: float) -> None:
        """Keep a lease for `ttl_s` seconds from now.

        Raises:
            StoreError: `lease_lost`: somebody else took it over.
        """

        def transaction(connection: Connection) -> None:
            leases.renew(connection, experiment_id, holder, ttl_s)

        await self.writer.submit(Operation(transaction=transaction))

    async def release_lease(self, experiment_id: str, holder: str) -> None:
        """Give a lease back.

        Raises:
            StoreError: `lease_lost`: somebody else took it over.
        """

        def transaction(connection: Connection) -> None:
            leases.release(connection, experiment_id, holder)
            self._holders.pop(experiment_id, None)

        await self.writer.submit(Operation(transaction=transaction))

    async def begin_attempt(self, start: AttemptStart) -> None:
        """Begin a try at a slot; this store has to hold the experiment's lease. Durable within 20 ms.

        Raises:
            StoreError: `lease_lost`; or there is no such slot, or this try was made already.
        """

        def transaction(connection: Connection) -> None:
            attempts.begin(connection, start, self._holders)

        await self.writer.submit(Operation(transaction=transaction), urgent=False)

    async def end_attempt(self, run_id: str, trace: TaskTrace) -> None:
        """End an attempt with all that is known of it, after all records of it that were handed over.
        Its status is final.

        Raises:
            StoreError: `attempt_ended`: it has ended already; `call_altered`: a tool call is not what
                was stored when it happened; `records_refused`: a record of the run was refused, so it
                cannot end in a way that is graded; or the trace has no status or is another run's.
        """
        await self.writer.submit(
            lambda: attempts.ending(run_id, trace, self.writer.incomplete, self._redaction)
        )

    async def record(
        self, bodies: Mapping[str, bytes], starts: Sequence[SpanStart] = (), ends: Sequence[SpanEnd] = ()
    ) -> None:
        """Store records that arrived together: all of them, or none.

        Args:
            bodies: Digest -> content.
            starts: Starts of spans; one that comes after its end changes nothing.
            ends: Ends of spans; the first end of a span counts.
        """
        await self.writer.submit(_records(bodies, starts, ends), _size(bodies, starts, ends))

    def record_soon(
        self,
        bodies: Mapping[str, bytes],
        starts: Sequence[SpanStart] = (),
        ends: Sequence[SpanEnd] = (),
        runs: Sequence[str] = (),
    ) -> asyncio.Future[None]:
        """As `record`, in no hurry: the future is done within about 20 ms. Called on an event loop.

        Args:
            bodies: Digest -> content.
            starts: Starts of spans.
            ends: Ends of spans.
            runs: Whose bodies these are; if they are refused, `end_attempt` of these runs hears of it,
                as it does for the runs that the spans name.
        """
        operation = _records(bodies, starts, ends)
        operation.runs = runs
        return self.writer.submit(operation, _size(bodies, starts, ends), urgent=False)

    def post_record(
        self,
        bodies: Mapping[str, bytes],
        starts: Sequence[SpanStart] = (),
        ends: Sequence[SpanEnd] = (),
        failures: Failures | None = None,
    ) -> None:
        """As `record`, without waiting: durable within about 20 ms.

        Args:
            bodies: Digest -> content.
            starts: Starts of spans.
            ends: Ends of spans.
            failures: Gets the error if it is refused; else `flush` and `close` raise it.
        """
        self.writer.post(_records(bodies, starts, ends), _size(bodies, starts, ends), failures)

    async def record_call(
        self,
        run_id: str,
        sequence: int,
        call: ToolCall,
        end: SpanEnd,
        bodies: Mapping[str, bytes] | None = None,
    ) -> None:
        """Store a tool call and the end of its span in one.

        Args:
            run_id: The attempt.
            sequence: 0 for its first call.
            call: The call.
            end: The end of its span.
            bodies: What the span names, digest -> content.

        Raises:
            StoreError: `attempt_ended`: the attempt has ended; or the sequence number is taken.
        """

        def operation() -> Operation:
            row, pair = call_row(run_id, sequence, call)
            return Operation(bodies=[*(bodies or {}).items(), *pair], ends=[end], calls=[row])

        await self.writer.submit(operation, _size(bodies or {}, (), ()))

    async def abort_open_spans(self, run_id: str, at_ns: int | None = None) -> int:
        """Mark the spans of a run that have not ended as aborted.

        Args:
            run_id: The attempt.
            at_ns: When they ended, in nanoseconds since the epoch; None is now.

        Returns:
            How many there were.
        """
        moment_ns = time.time_ns() if at_ns is None else at_ns

        def transaction(connection: Connection) -> int:
            return attempts.abort_open_spans(connection, run_id, moment_ns)

        aborted: int = await self.writer.submit(Operation(transaction=transaction))
        return aborted

    async def add_grade(self, run_id: str, grade: Grade) -> None:
        """Append a grade; the latest is in force, the earlier ones stay. Durable within 20 ms.

        Raises:
            StoreError: `not_gradable`: the run has not ended, or not in a way that is graded.
        """

        def transaction(connection: Connection) -> None:
            attempts.grade(connection, run_id, self._redaction.grade(grade))

        await self.writer.submit(Operation(transaction=transaction), urgent=False)

    async def keep_evidence(self, run_id: str, content: bytes) -> bytes:
        """Keep a run's evidence document. The first one counts: it is never replaced.

        Args:
            run_id: A run that has ended.
            content: The document.

        Returns:
            The run's document, which may be one that was there before.

        Raises:
            StoreError: `evidence_not_final`: the run has not ended.
        """
        digest: str = await self.writer.submit(
            lambda: evidence.keeping(run_id, content, self._redaction), len(content)
        )
        return await asyncio.to_thread(self.body_bytes, digest)

    async def note(self, kind: str, experiment_id: str, data: Mapping[str, Any]) -> None:
        """Append an entry to the journal that changes nothing else."""

        def transaction(connection: Connection) -> None:
            journal.note(connection, kind, experiment_id, None, data)

        await self.writer.submit(Operation(transaction=transaction))

    async def flush(self) -> None:
        """Wait until everything posted so far is durable.

        Raises:
            StoreError: Some of it was refused.
        """
        await self.writer.submit(Operation())
        raise_failures(self.writer.failures)

    async def ready(self) -> None:
        """Wait until the queue has room; whoever posts records awaits it from time to time."""
        await self.writer.ready()

    def pressure(self) -> Pressure:
        """What waits to be written."""
        return self.writer.pressure()

    def cell_totals(self, experiment_id: str) -> list[CellTotals]:
        """Ended attempts and scores in force, cell by cell."""
        with self._database.read() as connection:
            return summaries.cell_totals(connection, experiment_id)

    def token_totals(self, experiment_id: str) -> list[TokenTotals]:
        """Tokens of ended attempts, cell by cell."""
        with self._database.read() as connection:
            return summaries.token_totals(connection, experiment_id)

    @property
    def writer(self) -> Writer:
        """The writer.

        Raises:
            StoreError: The store was opened for reading.
        """
        if self._writer is None:
            raise StoreError(f"{self.path} was opened for reading")
        return self._writer


def raise_failures(failures: Failures) -> None:
    """Raise what befell records nobody waited for, and forget it.

    Raises:
        StoreError: There was something.
    """
    if not failures:
        return
    taken: list[AtpError] = failures[:]
    del failures[: len(taken)]
    raise StoreError(f"{len(taken)} records could not be stored, the first: {taken[0]}") from taken[0]


def _records(bodies: Mapping[str, bytes], starts: Sequence[SpanStart], ends: Sequence[SpanEnd]) -> Operation:
    return Operation(bodies=list(bodies.items()), starts=starts, ends=ends)


def _size(bodies: Mapping[str, bytes], starts: Sequence[SpanStart], ends: Sequence[SpanEnd]) -> int:
    return sum(map(len, bodies.values())) + 1024 * (len(starts) + len(ends))

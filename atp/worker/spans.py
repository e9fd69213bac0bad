"""Span records on their way from a worker to the engine's store.

Records of all attempts share batches; a batch is sent when it is large enough or a few
milliseconds old. At most `WINDOW` batches are under way: beyond that records wait here, each
attempt's hooks wait once the attempt has `ATTEMPT_RECORDS` of them unacknowledged, and control
messages are not held up. What ends an attempt goes in line with its records.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from atp.protocol.errors import LinkBroken, StoreError
from atp.protocol.spans import SpanEnd, SpanKind, SpanStart
from atp.worker.frames import Lane
from atp.worker.link import Link, Message
from atp.worker.messages import Packed, pack_end, pack_start

BATCH_RECORDS = 256
BATCH_BYTES = 512 << 10
DELAY = 0.025
"""Seconds a record waits for company; a tool call and the end of an attempt send it at once."""
WINDOW = 8
"""Batches sent and not yet acknowledged."""
ATTEMPT_RECORDS = 512
"""Unacknowledged records (a body counts as one per 4 KiB) at which an attempt's hooks wait."""
KNOWN_BODIES = 65_536
"""Digests remembered as sent; forgetting one costs sending it again."""


@dataclass(slots=True)
class _Batch:
    bodies: list[tuple[str, str]] = field(default_factory=list)
    starts: list[Packed] = field(default_factory=list)
    ends: list[Packed] = field(default_factory=list)
    weight: Counter[str] = field(default_factory=Counter)
    answered: Counter[str] = field(default_factory=Counter)
    """Model spans among the ends, by run."""
    size: int = 0


class SpanSender:
    """Sends the records of all attempts of one worker.

    Args:
        link: To the engine.
    """

    def __init__(self, link: Link) -> None:
        self._link = link
        self._loop = asyncio.get_running_loop()
        self._batch = _Batch()
        self._timer: asyncio.TimerHandle | None = None
        self._line: deque[_Batch | Mapping[str, Any]] = deque()
        self._under_way = 0
        self._known: dict[str, None] = {}
        self._pending: Counter[str] = Counter()
        self._answered_calls: Counter[str] = Counter()
        self._failed: dict[str, BaseException] = {}
        self._changed = asyncio.Event()

    def sink(self, run_id: str) -> LinkSink:
        """A sink for one attempt."""
        return LinkSink(self, run_id)

    def add_body(self, run_id: str, digest: str, content: bytes) -> None:
        """Queue a body unless it was sent before."""
        if digest in self._known:
            return
        self._known[digest] = None
        if len(self._known) > KNOWN_BODIES:
            del self._known[next(iter(self._known))]
        self._batch.bodies.append((digest, content.decode()))
        self._count(run_id, 1 + len(content) // 4096, len(content))

    def add_start(self, record: SpanStart) -> None:
        """Queue a start record."""
        self._batch.starts.append(pack_start(record))
        self._count(record.run_id, 1, 256)

    def add_end(self, record: SpanEnd) -> None:
        """Queue an end record."""
        self._batch.ends.append(pack_end(record))
        if record.start.kind is SpanKind.MODEL:
            self._batch.answered[record.start.run_id] += 1
            self._answered_calls[record.start.run_id] += 1
        self._count(record.start.run_id, 1, 512)

    def pending(self, run_id: str) -> int:
        """Unacknowledged records of an attempt."""
        return self._pending[run_id]

    async def until(self, run_id: str, most: int) -> None:
        """Wait until at most `most` records of the attempt are unacknowledged.

        Raises:
            StoreError: The engine could not store some of them.
            LinkBroken: The engine is gone.
        """
        await self._until(run_id, lambda: self._pending[run_id] <= most)

    async def until_answered_calls_are_durable(self, run_id: str) -> None:
        """Wait until every model span of the attempt that has ended is acknowledged.

        Raises:
            StoreError, LinkBroken: See `until`.
        """
        await self._until(run_id, lambda: self._answered_calls[run_id] <= 0)

    async def _until(self, run_id: str, holds: Callable[[], bool]) -> None:
        while not holds():
            self.flush()
            self._changed.clear()
            await self._changed.wait()
        if run_id in self._failed:
            raise self._failed[run_id]

    def finish(self, run_id: str, last: Mapping[str, Any]) -> None:
        """The attempt is over: send its last message behind all of its records."""
        self.flush()
        self._line.append(last)
        self.forget(run_id)
        self._advance()

    def forget(self, run_id: str) -> None:
        """Nobody asks for the attempt's records any more; what was queued is still sent."""
        self._pending.pop(run_id, None)
        self._answered_calls.pop(run_id, None)
        self._failed.pop(run_id, None)

    def flush(self) -> None:
        """Send what has gathered."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._batch.weight:
            self._line.append(self._batch)
            self._batch = _Batch()
            self._advance()

    def _count(self, run_id: str, weight: int, size: int) -> None:
        self._pending[run_id] += weight
        self._batch.weight[run_id] += weight
        self._batch.size += size
        if self._batch.size >= BATCH_BYTES or len(self._batch.ends) >= BATCH_RECORDS:
            self.flush()
        elif self._timer is None:
            self._timer = self._loop.call_later(DELAY, self.flush)

    def _advance(self) -> None:
        while self._line:
            if not isinstance(self._line[0], _Batch):
                self._link.send(Lane.SPAN, self._line[0])
            elif self._under_way < WINDOW:
                self._send(self._line[0])
            else:
                return
            self._line.popleft()

    def _send(self, batch: _Batch) -> None:
        message = {
            "type": "spans",
            "runs": list(batch.weight),
            "bodies": batch.bodies,
            "starts": batch.starts,
            "ends": batch.ends,
        }
        try:
            answer = self._link.ask(Lane.SPAN, message)
        except LinkBroken as error:
            self._settle(batch, error)
        else:
            self._under_way += 1
            answer.add_done_callback(partial(self._answered, batch))

    def _answered(self, batch: _Batch, answer: asyncio.Future[Message]) -> None:
        self._under_way -= 1
        failure = answer.exception()
        if failure is None and (refusal := answer.result()["error"]) is not None:
            failure = StoreError(refusal)
        self._settle(batch, failure)
        self._advance()

    def _settle(self, batch: _Batch, failure: BaseException | None) -> None:
        for run_id, weight in batch.weight.items():
            if run_id in self._pending:
                self._pending[run_id] -= weight
                self._answered_calls[run_id] -= batch.answered[run_id]
                if failure is not None:
                    self._failed[run_id] = failure
        if failure is not None:
            for digest, _ in batch.bodies:
                self._known.pop(digest, None)
        self._changed.set()


class LinkSink:
    """The `SpanSink` of one attempt in a worker."""

    def __init__(self, sender: SpanSender, run_id: str) -> None:
        self._sender = sender
        self._run_id = run_id

    def body(self, digest: str, content: bytes) -> None:
        """See `SpanSink.body`."""
        self._sender.add_body(self._run_id, digest, content)

    def start(self, record: SpanStart) -> None:
        """See `SpanSink.start`."""
        self._sender.add_start(record)

    def end(self, record: SpanEnd) -> None:
        """See `SpanSink.end`."""
        self._sender.add_end(record)

    async def ready(self, *, before_call: bool = False) -> None:
        """See `SpanSink.ready`."""
        if before_call:
            await self._sender.until_answered_calls_are_durable(self._run_id)
        if self._sender.pending(self._run_id) > ATTEMPT_RECORDS:
            await self._sender.until(self._run_id, ATTEMPT_RECORDS)

    async def flush(self) -> None:
        """See `SpanSink.flush`."""
        await self._sender.until(self._run_id, 0)

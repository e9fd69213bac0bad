"""Spans of this process, straight into its store."""

from __future__ import annotations

from atp.protocol.spans import SpanEnd, SpanStart
from atp.store.operations import Body, Operation
from atp.store.store import Store, raise_failures
from atp.store.writer import Failures


class StoreSink:
    """A `atp.protocol.spans.SpanSink` over a store: records are durable within about 20 ms."""

    def __init__(self, store: Store) -> None:
        self._writer = store.writer
        self._failures: Failures = []
        self._bodies: list[Body] = []
        self._size = 0

    def body(self, digest: str, content: bytes) -> None:
        """See `SpanSink.body`. It goes to the writer with the next record, the first that may name it."""
        self._bodies.append((digest, content))
        self._size += len(content)

    def start(self, record: SpanStart) -> None:
        """See `SpanSink.start`."""
        self._post(Operation(starts=(record,)))

    def end(self, record: SpanEnd) -> None:
        """See `SpanSink.end`."""
        self._post(Operation(ends=(record,)))

    async def ready(self, *, before_call: bool = False) -> None:
        """See `SpanSink.ready`."""
        if before_call:
            await self.flush()
        await self._writer.ready()

    async def flush(self) -> None:
        """See `SpanSink.flush`.

        Raises:
            StoreError: A record handed to this sink was refused.
        """
        self._post(Operation())
        await self._writer.submit(Operation())
        raise_failures(self._failures)

    def _post(self, operation: Operation) -> None:
        operation.bodies, self._bodies = self._bodies, []
        size, self._size = self._size, 0
        self._writer.post(operation, size, self._failures)

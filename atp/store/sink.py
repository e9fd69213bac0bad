"""Spans of this process, straight into its store."""

from __future__ import annotations

from atp.protocol.spans import SpanEnd, SpanStart
from atp.store.operations import Operation
from atp.store.store import Store, raise_failures
from atp.store.writer import Failures


class StoreSink:
    """A `atp.protocol.spans.SpanSink` over a store: records are durable within about 20 ms."""

    def __init__(self, store: Store) -> None:
        self._writer = store.writer
        self._failures: Failures = []

    def body(self, digest: str, content: bytes) -> None:
        """See `SpanSink.body`; a body that is stored already costs a look-up on the writer's thread."""
        self._writer.post(Operation(bodies=((digest, content),)), len(content), self._failures)

    def start(self, record: SpanStart) -> None:
        """See `SpanSink.start`."""
        self._writer.post(Operation(starts=(record,)), 0, self._failures)

    def end(self, record: SpanEnd) -> None:
        """See `SpanSink.end`."""
        self._writer.post(Operation(ends=(record,)), 0, self._failures)

    async def ready(self) -> None:
        """See `SpanSink.ready`."""
        await self._writer.ready()

    async def flush(self) -> None:
        """See `SpanSink.flush`.

        Raises:
            StoreError: A record handed to this sink was refused.
        """
        await self._writer.submit(Operation())
        raise_failures(self._failures)

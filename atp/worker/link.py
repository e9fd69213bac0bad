"""One end of the link: three lanes out, messages in, requests matched to replies.

The same class serves both ends of a socket and both ends of an in-memory pair, so there is no
second way to run. Nothing here waits on application code: `received` of the handler must return at
once.
"""

from __future__ import annotations

import asyncio
import contextvars
import socket
from collections import deque
from collections.abc import Mapping
from typing import Any, Protocol

from atp.protocol.errors import LinkBroken
from atp.protocol.json_text import encode
from atp.worker.frames import FrameReader, Lane, frames

HIGH_WATER = 256 << 10
"""Bytes handed to the transport before the lanes hold back: what a control frame may wait behind."""
BATCH = 64 << 10
"""Bytes of queued frames that are joined into one write."""

Message = dict[str, Any]
"""A message: `type` says which, see `atp.worker.messages`."""


class LinkHandler(Protocol):
    """What a side does with what arrives."""

    def received(self, message: Message) -> None:
        """Handle a message that is no reply. Must not block or await."""

    def lost(self, error: Exception | None) -> None:
        """The peer is gone; `error` says why if anything is known."""


class Transport(Protocol):
    """The part of `asyncio.Transport` that the link uses."""

    def write(self, data: bytes) -> None:
        """Send bytes."""

    def close(self) -> None:
        """Flush and close."""


class Link(asyncio.Protocol):
    """One end of the link.

    Args:
        handler: Gets every message that is not a reply to a request of this side.
    """

    def __init__(self, handler: LinkHandler) -> None:
        self._handler = handler
        self._loop = asyncio.get_running_loop()
        self._reader = FrameReader()
        self._lanes: tuple[deque[bytes], ...] = tuple(deque() for _ in Lane)
        self._transport: Transport | None = None
        self._paused = False
        self._flush_scheduled = False
        self._closed = False
        self._requests: dict[int, asyncio.Future[Message]] = {}
        self._next_request = 0

    @property
    def closed(self) -> bool:
        """Whether nothing can be sent any more."""
        return self._closed

    def send(self, lane: Lane, message: Mapping[str, Any]) -> None:
        """Queue a message. On a closed link it goes nowhere: `lost` has told the handler."""
        if self._closed:
            return
        self._lanes[lane].extend(frames(lane, encode(message)))
        if not self._flush_scheduled:
            self._flush_scheduled = True
            self._loop.call_soon(self._flush)

    async def request(self, lane: Lane, message: Mapping[str, Any]) -> Message:
        """Send a message and wait for its reply.

        Raises:
            LinkBroken: The link is closed, or closes before the reply.
        """
        number, future = self._ask(lane, message)
        try:
            return await future
        finally:
            self._requests.pop(number, None)

    def ask(self, lane: Lane, message: Mapping[str, Any]) -> asyncio.Future[Message]:
        """As `request`, for a message that the peer answers whatever happens.

        Raises:
            LinkBroken: The link is closed; the future raises it when it closes before the reply.
        """
        return self._ask(lane, message)[1]

    def reply(self, lane: Lane, request: Message, message: Mapping[str, Any]) -> None:
        """Answer a request; a second answer to it finds nobody and is dropped by the peer."""
        self.send(lane, {**message, "type": "reply", "reply_to": request["request"]})

    def close(self) -> None:
        """Send what is queued, then close."""
        if self._transport is not None and not self._closed:
            self._paused = False
            self._flush()
            self._transport.close()

    # asyncio.Protocol

    def connection_made(self, transport: Any) -> None:
        """See `asyncio.Protocol`."""
        self._transport = transport
        if isinstance(transport, asyncio.WriteTransport):
            transport.set_write_buffer_limits(high=HIGH_WATER)
        self._flush()

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        try:
            for received in self._reader.feed(data):
                self._dispatch(received.message)
        except LinkBroken as error:
            self._lose(error)
            if self._transport is not None:
                self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        self._lose(exc)

    def pause_writing(self) -> None:
        """See `asyncio.Protocol`."""
        self._paused = True

    def resume_writing(self) -> None:
        """See `asyncio.Protocol`."""
        self._paused = False
        self._flush()

    def _ask(self, lane: Lane, message: Mapping[str, Any]) -> tuple[int, asyncio.Future[Message]]:
        if self._closed:
            raise LinkBroken("the link is closed")
        self._next_request += 1
        future: asyncio.Future[Message] = self._loop.create_future()
        self._requests[self._next_request] = future
        self.send(lane, {**message, "request": self._next_request})
        return self._next_request, future

    def _dispatch(self, message: Message) -> None:
        if message.get("type") != "reply":
            self._handler.received(message)
            return
        future = self._requests.pop(message["reply_to"], None)
        if future is not None and not future.done():
            future.set_result(message)

    def _flush(self) -> None:
        self._flush_scheduled = False
        if self._transport is None or self._closed:
            return
        while not self._paused and (batch := self._next_frames()):
            self._transport.write(batch)

    def _next_frames(self) -> bytes:
        """Frames in lane order, joined up to `BATCH` bytes: one system call for many small ones."""
        taken: list[bytes] = []
        size = 0
        for lane in self._lanes:
            while lane and size < BATCH:
                taken.append(lane.popleft())
                size += len(taken[-1])
        return b"".join(taken)

    def _lose(self, error: Exception | None) -> None:
        if self._closed:
            return
        self._closed = True
        for future in self._requests.values():
            if not future.done():
                future.set_exception(LinkBroken(f"the link broke: {error or 'the peer is gone'}"))
        self._requests.clear()
        self._handler.lost(error)


async def connect(sock: socket.socket, handler: LinkHandler) -> Link:
    """Put a link on a connected socket."""
    loop = asyncio.get_running_loop()
    _, link = await loop.create_connection(lambda: Link(handler), sock=sock)
    return link


def memory_pair(left: LinkHandler, right: LinkHandler) -> tuple[Link, Link]:
    """Two ends of a link in one process; every message is still encoded, framed and decoded."""
    ends = Link(left), Link(right)
    ends[0].connection_made(_MemoryTransport(ends[0], ends[1]))
    ends[1].connection_made(_MemoryTransport(ends[1], ends[0]))
    return ends


class _MemoryTransport:
    def __init__(self, own: Link, peer: Link) -> None:
        self._own = own
        self._peer = peer
        self._loop = asyncio.get_running_loop()
        # As with a socket, what arrives runs in the context the link was made in. In the sender's it
        # would hand one attempt's context variables, its callbacks among them, to another.
        self._context = contextvars.copy_context()

    def write(self, data: bytes) -> None:
        self._loop.call_soon(self._peer.data_received, data, context=self._context)

    def close(self) -> None:
        for end in (self._own, self._peer):
            self._loop.call_soon(end.connection_lost, None, context=self._context)

"""Model calls of a harness that runs in threads, watched over the HTTP client and turned into spans.

The agent runs in threads, and recording belongs to the event loop: hooks wait for it, which is also
how a full queue of spans slows the agent down.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from atp.protocol.spans import Actor, AttributeValue, Recorder, SpanHandle, SpanKind
from monitor import vocabulary as v
from monitor.instruments.model_exchange import announce, record_request
from monitor.instruments.openai_http import CopiedResponse
from monitor.instruments.openai_replies import AnnouncedCall, ChatReply, read_reply
from monitor.instruments.openai_requests import RequestForms
from monitor.instruments.watched_call import copied_reply, failed_try

AskedT = TypeVar("AskedT")


class ThreadedInstrument(Generic[AskedT]):
    """What instruments of such harnesses share. Made within the event loop.

    Args:
        recorder: Of the attempt.
    """

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._loop = asyncio.get_running_loop()
        self._requests = RequestForms()
        self._closed = False

    def refused(self, call: ModelCall[AskedT], announced: AnnouncedCall) -> bool:
        """Whether the harness answers this call of the model itself."""
        raise NotImplementedError

    def written(self, call: ModelCall[AskedT], reply: ChatReply) -> Iterator[str]:
        """Names of the tools that the harness calls by the text of a reply without calls."""
        return iter(())

    def close(self) -> None:
        """Record nothing more; the recorder, which knows what ended the attempt, ends what is open."""
        self._closed = True

    def record(self, where: str, function: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a coroutine in the event loop and wait for it; for the harness's threads. Raises nothing."""
        try:
            asyncio.run_coroutine_threadsafe(self._unless_closed(function), self._loop).result()
        except Exception as error:
            self.recorder.failed(where, error)

    def agent_started(self, name: str, parent: SpanHandle | None) -> SpanHandle | None:
        """An agent below the attempt's own begins; None where that can no longer be recorded."""
        spans: list[SpanHandle] = []

        async def start() -> None:
            await self.recorder.ready()
            attributes: dict[str, AttributeValue] = {v.AGENT_NAME: name, v.ACTOR: Actor.AGENT.value}
            spans.append(self.recorder.start(SpanKind.AGENT, name, parent=parent, attributes=attributes))

        self.record("agent", start)
        return spans[0] if spans else None

    def agent_ended(self, span: SpanHandle, error: BaseException | None) -> None:
        """It ends."""

        async def end() -> None:
            span.end(error)

        self.record("agent", end)

    def call_ended(self, call: ModelCall[AskedT], error: Exception | None) -> None:
        """A model call is over."""
        self.record("model call", lambda: self._ended(call, error))

    # For model calls.

    async def request_goes_out(self, call: ModelCall[AskedT], body: bytes) -> None:
        """The first request of a model call is about to go out."""
        await self.recorder.ready(before_call=True)
        request = self._requests.read(body)
        asked = request.model or "unknown"
        attributes: dict[str, AttributeValue] = {
            v.MODEL_NAME: asked,
            v.ACTOR: Actor.AGENT.value,
            v.MODEL_STREAM: request.stream,
        }
        call.started, call.streams = time.perf_counter_ns(), request.stream
        call.offered = frozenset(tool.get("function", {}).get("name") for tool in request.tools)
        span = call.span = self.recorder.start(
            SpanKind.MODEL, asked, parent=call.parent, attributes=attributes
        )
        record_request(span, request)

    async def request_is_repeated(self, call: ModelCall[AskedT]) -> None:
        """A request of a model call is about to go out again."""
        if call.span is not None:
            call.span.event(v.REPEATED_TRY, {"retry_count": call.requests - 1})

    async def request_is_refused(
        self, call: ModelCall[AskedT], status: int, retry_after: float | None
    ) -> None:
        """The provider answered with an HTTP error."""
        if call.span is not None:
            call.span.event(v.FAILED_TRY, failed_try(status, call.requests - 1, retry_after))

    async def _unless_closed(self, function: Callable[[], Coroutine[Any, Any, None]]) -> None:
        if not self._closed:
            await function()

    async def _ended(self, call: ModelCall[AskedT], error: Exception | None) -> None:
        span = call.span
        if span is None:
            return  # it failed before anything was asked
        try:
            span.set(v.RETRIES, call.requests - 1)
            if call.streams and call.copy is not None and call.copy.first_chunk is not None:
                span.set(v.TIME_TO_FIRST_CHUNK, (call.copy.first_chunk - call.started) / 1e9)
            reply = copied_reply(call.copy, read_reply, error, span, self.recorder)
            message = reply.message
            if message is not None:
                span.set_messages(v.OUTPUT_MESSAGES, [message])
            if error is None:
                self._record_reply(call, span, reply)
        finally:
            span.end(error)
        await self.recorder.ready()

    def _record_reply(self, call: ModelCall[AskedT], span: SpanHandle, reply: ChatReply) -> None:
        for name, value in reply.attributes.items():
            span.set(name, value)
        if not reply.calls:
            written = list(self.written(call, reply))
            if written:
                span.set(v.WRITTEN_CALL_NAMES, written)
            return
        announce(self.recorder, span, reply, partial(self.refused, call))


@dataclass(slots=True)
class ModelCall(Generic[AskedT]):
    """A model call in progress (implements `monitor.instruments.openai_http.Listener`)."""

    instrument: ThreadedInstrument[AskedT]
    asked: AskedT
    """What the harness knows of it."""
    parent: SpanHandle | None = None
    """None for the span of the current context."""
    span: SpanHandle | None = None
    offered: frozenset[str] = frozenset()
    """Names of the tools that the request offers."""
    started: int = 0
    streams: bool = False
    requests: int = 0
    copy: CopiedResponse | None = None

    def requested(self, body: bytes) -> None:
        """See `Listener`."""
        self.requests += 1
        if self.requests == 1:
            self.instrument.record("request", lambda: self.instrument.request_goes_out(self, body))
        else:
            self.instrument.record("request", lambda: self.instrument.request_is_repeated(self))

    def answered(self, copy: CopiedResponse) -> None:
        """See `Listener`."""
        self.copy = copy

    def refused(self, status: int, retry_count: int | None, retry_after: float | None) -> None:
        """See `Listener`. The count is our own: a harness's repetitions start the client's anew."""
        self.instrument.record(
            "response", lambda: self.instrument.request_is_refused(self, status, retry_after)
        )

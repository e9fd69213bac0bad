"""The instrument for Google's Agent Development Kit: a plugin for when, the HTTP client for what.

ADK tells a plugin when an agent begins and ends and when a model is asked and has answered, but keeps
neither the id of a response nor the arguments as they were written: those are read from copies taken
inside the HTTP client (`genai_http`, `openai_http`). ADK's own OTel spans are not used: they come through
the global provider, tell of messages only as ADK has them, and cost more.

A model span begins when its request goes out. ADK may stop between the hook before a model call and the
call itself, at its own limit of calls or because a callback of the user's answers instead.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from atp.protocol.model import Dialect
from atp.protocol.spans import Actor, AttributeValue, Recorder, SpanHandle, SpanKind
from monitor import vocabulary as v
from monitor.instruments.gemini_replies import read_gemini_reply
from monitor.instruments.gemini_requests import GeminiRequestForms
from monitor.instruments.google_adk_plugin import plugin
from monitor.instruments.google_adk_responses import reply_of
from monitor.instruments.model_exchange import record_reply, record_request
from monitor.instruments.openai_http import MODEL_CALL, CopiedResponse
from monitor.instruments.openai_replies import ChatReply, read_reply
from monitor.instruments.openai_requests import ModelRequest, RequestForms
from monitor.instruments.openai_responses_replies import read_response_reply
from monitor.instruments.watched_call import WatchedCall

_READ: dict[Dialect, Callable[[str, bytes], ChatReply]] = {
    Dialect.GEMINI: read_gemini_reply,
    Dialect.OPENAI_CHAT: read_reply,
    Dialect.OPENAI_RESPONSES: read_response_reply,
}


class GoogleADKInstrument:
    """Watches one attempt (implements `atp.protocol.spans.Instrument`).

    Args:
        recorder: Of the attempt.
    """

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.read = _READ[Dialect.GEMINI]
        self._dialect = Dialect.GEMINI
        self._forms: GeminiRequestForms | RequestForms = GeminiRequestForms()
        self._tools: Collection[str] | None = None
        self._main: str | None = None
        self._closed = False

    def speaks(self, dialect: Dialect, stream: bool, tools: Collection[str] | None) -> None:
        """How the models of the attempt are asked; to be said before any is.

        Args:
            dialect: Of the requests.
            stream: Whether they ask for streams.
            tools: Names of the binding's tools: calls of others ADK answers itself. None when that is not
                known.
        """
        self._dialect, self.read = dialect, _READ[dialect]
        self._forms = GeminiRequestForms(stream) if dialect is Dialect.GEMINI else RequestForms()
        self._tools = tools

    @cached_property
    def plugin(self) -> Any:
        """For `Runner(plugins=[instrument.plugin])`."""
        return plugin(self)

    def asking(self) -> SpanHandle | None:
        """The span of the model call whose reply is being acted on; for a tool that ADK runs."""
        call = MODEL_CALL.get()
        return call.span if isinstance(call, _ModelCall) and call.instrument is self else None

    def close(self) -> None:
        """Record nothing more; the recorder, which knows what ended the attempt, ends what is open."""
        self._closed = True

    async def ready(self, *, before_call: bool = False) -> None:
        """See `SpanSink.ready`."""
        await self.recorder.ready(before_call=before_call)

    def failed(self, where: str, error: Exception) -> None:
        """A hook failed: counted and noted on the root span."""
        self.recorder.failed(where, error)

    def agent_started(self, name: str) -> None:
        """An agent begins its part. The one that began the attempt is the root's."""
        above = _AGENT.get()
        if above is None:
            self._main = self._main or name
        span: SpanHandle | None = None
        if not self._closed and (above is not None or name != self._main):
            attributes: dict[str, AttributeValue] = {v.AGENT_NAME: name, v.ACTOR: Actor.AGENT.value}
            parent = above.span if above is not None else None
            span = self.recorder.start(SpanKind.AGENT, name, parent=parent, attributes=attributes)
        _AGENT.set(_Agent(name, span, above))

    def agent_ended(self, name: str, error: Exception | None) -> None:
        """An agent has ended its part; those below it that did not say so end with it."""
        agent = _AGENT.get()
        if agent is None or all(each.name != name for each in agent.line):
            return
        for each in agent.line:
            if each.span is not None and not self._closed:
                each.span.end(error)
            _AGENT.set(each.above)
            if each.name == name:
                return

    def model_call(self, model: str | None) -> None:
        """A model is about to be asked, unless something keeps ADK from it."""
        agent = _AGENT.get()
        MODEL_CALL.set(_ModelCall(self, model or "unknown", agent.span if agent is not None else None))

    def model_answered(self, response: Any) -> None:
        """A model has answered; a part of its answer says nothing yet."""
        call = MODEL_CALL.get()
        if response.partial or not isinstance(call, _ModelCall) or self._closed:
            return
        call.end(reply_of(response, self._dialect), None)

    def model_failed(self, error: Exception) -> None:
        """A model gave no answer."""
        call = MODEL_CALL.get()
        if isinstance(call, _ModelCall) and not self._closed:
            call.end(ChatReply(), error)

    def read_request(self, body: bytes) -> ModelRequest | None:
        """What a request asks; None where it cannot be read."""
        try:
            return self._forms.read(body)
        except Exception as error:
            self.failed("request", error)
            return None

    def record(self, span: SpanHandle, reply: ChatReply) -> None:
        """Put a reply on its span."""
        record_reply(self.recorder, span, reply, self._tools)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Within it nothing is left in the context of who calls ADK."""
        agent, call = _AGENT.set(None), MODEL_CALL.set(None)
        try:
            yield
        finally:
            _AGENT.reset(agent)
            MODEL_CALL.reset(call)


@dataclass(frozen=True, slots=True)
class _Agent:
    """An agent whose part has begun."""

    name: str
    span: SpanHandle | None
    """None for the attempt's own agent, whose span is the root."""
    above: _Agent | None

    @property
    def line(self) -> Iterator[_Agent]:
        """The agent and those above it, upwards."""
        each: _Agent | None = self
        while each is not None:
            yield each
            each = each.above


_AGENT: ContextVar[_Agent | None] = ContextVar("atp_adk_agent", default=None)


@dataclass(slots=True)
class _ModelCall:
    """A model call, from the hook before it on (implements `monitor.instruments.openai_http.Listener`)."""

    instrument: GoogleADKInstrument
    model: str
    above: SpanHandle | None
    watched: WatchedCall | None = None
    streams: bool = False
    started: int = field(default_factory=time.perf_counter_ns)

    @property
    def span(self) -> SpanHandle | None:
        """None as long as no request has gone out."""
        return self.watched.span if self.watched is not None else None

    def requested(self, body: bytes) -> None:
        """See `Listener`."""
        if self.watched is None:
            request = self.instrument.read_request(body)
            self.watched = self._begun()
            self.started = time.perf_counter_ns()
            if request is not None:
                self.streams = request.stream
                self.watched.span.set(v.MODEL_STREAM, request.stream)
                record_request(self.watched.span, request)
        self.watched.requested(body)

    def answered(self, copy: CopiedResponse) -> None:
        """See `Listener`."""
        if self.watched is not None:
            self.watched.answered(copy)

    def refused(self, status: int, retry_count: int | None, retry_after: float | None) -> None:
        """See `Listener`. Google's client does not count; what it sent again was seen."""
        if self.watched is not None:
            count = self.watched.requests - 1 if retry_count is None else retry_count
            self.watched.refused(status, count, retry_after)

    def end(self, told: ChatReply, error: Exception | None) -> None:
        """The call is over.

        Args:
            told: What ADK knows of the reply; it counts where no copy was taken.
            error: Why there is none.
        """
        watched = self.watched = self.watched or self._begun()
        if watched.ended:
            return
        watched.ended = True
        span, copy = watched.span, watched.copy
        try:
            if copy is not None and copy.retry_count is None:
                span.set(v.RETRIES, watched.requests - 1)
            if copy is not None and copy.first_chunk is not None and self.streams:
                span.set(v.TIME_TO_FIRST_CHUNK, (copy.first_chunk - self.started) / 1e9)
            self.instrument.record(span, told if copy is None else watched.reply(error))
        finally:
            span.end(error)

    def _begun(self) -> WatchedCall:
        recorder = self.instrument.recorder
        attributes: dict[str, AttributeValue] = {v.MODEL_NAME: self.model, v.ACTOR: Actor.AGENT.value}
        span = recorder.start(SpanKind.MODEL, self.model, parent=self.above, attributes=attributes)
        return WatchedCall(recorder=recorder, span=span, read=self.instrument.read)

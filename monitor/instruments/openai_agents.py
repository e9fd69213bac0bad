"""The instrument for the OpenAI Agents SDK: the spans of its own tracing, turned into ours.

Model spans for every model call, agent spans for agents that a run hands off to or calls as tools,
chains for custom and guardrail spans. Tool spans are made at the binding; the SDK's tasks and turns
say no more than the model spans.

A hook that fails neither ends the run nor goes unseen: the recorder counts it and notes it on the
root span. A copied HTTP exchange finds its model span by a context variable that the start of the
model call sets, in the context in which the call is then made.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from atp.protocol.spans import Actor, AttributeValue, Recorder, SpanHandle, SpanKind
from monitor import vocabulary as v
from monitor.instruments.model_exchange import record_reply, record_request
from monitor.instruments.openai_agents_hooks import forget, keep_traces_here, listening, run_hooks
from monitor.instruments.openai_agents_spans import SpanFailed, error_of, has_reply, reply_of
from monitor.instruments.openai_http import MODEL_CALL
from monitor.instruments.openai_replies import ChatReply, read_reply
from monitor.instruments.openai_requests import ModelRequest, RequestForms
from monitor.instruments.openai_responses_replies import read_response_reply
from monitor.instruments.watched_call import WatchedCall

if TYPE_CHECKING:
    from agents import RunHooks

_CHAT, _RESPONSE = "generation", "response"
_CHAINS = frozenset({"custom", "guardrail"})


class OpenAIAgentsInstrument:
    """Watches one attempt (implements `atp.protocol.spans.Instrument`).

    Args:
        recorder: Of the attempt.
    """

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.forms = RequestForms()
        self._model = "unknown"
        self._tools: Collection[str] | None = None
        self._spans: dict[str, _SdkSpan] = {}
        self._main: str | None = None
        self._hooks: RunHooks[Any] | None = None

    @contextmanager
    def watching(self, model: str, tools: Collection[str] | None = None) -> Iterator[None]:
        """Within it every run of the SDK is watched, and none of its traces leaves the process.

        Args:
            model: What a model is called as long as its request has not been seen.
            tools: Names of the binding's tools: calls of others the harness answers itself, as it
                does with handoffs. None when that is not known.
        """
        self._model = model
        self._tools = tools
        keep_traces_here()
        with listening(self):
            yield

    @property
    def hooks(self) -> RunHooks[Any]:
        """For `Runner.run(hooks=instrument.hooks)`: lets a full queue slow the harness."""
        if self._hooks is None:
            self._hooks = run_hooks(self)
        return self._hooks

    def close(self) -> None:
        """Let go of what is unfinished; the recorder, which knows what ended the attempt, ends it."""
        for span_id in self._spans:
            forget(span_id)
        self._spans.clear()

    async def ready(self, *, before_call: bool = False) -> None:
        """See `SpanSink.ready`."""
        await self.recorder.ready(before_call=before_call)

    def failed(self, where: str, error: Exception) -> None:
        """A hook failed: counted and noted on the root span."""
        self.recorder.failed(where, error)

    def span_started(self, span: Any) -> None:
        """A span of the SDK starts."""
        known = self._spans[span.span_id] = _SdkSpan(self._spans.get(span.parent_id), span.span_data.type)
        if known.kind in {_CHAT, _RESPONSE}:
            self._model_started(known, span.span_data)
        elif known.kind == "agent" and not self._is_main(known, span.span_data.name):
            name = span.span_data.name
            attributes: dict[str, AttributeValue] = {v.AGENT_NAME: name, v.ACTOR: Actor.AGENT.value}
            known.span = self.recorder.start(SpanKind.AGENT, name, parent=known.above, attributes=attributes)
        elif known.kind in _CHAINS:
            name = span.span_data.name
            known.span = self.recorder.start(
                SpanKind.CHAIN, name, parent=known.above, attributes={v.CHAIN_NAME: name}
            )

    def span_ended(self, span: Any) -> None:
        """A span of the SDK ends."""
        known = self._spans.pop(span.span_id, None)
        if known is None or known.span is None:
            return
        if known.call is not None:
            self._model_ended(known.call, span)
        else:
            known.span.end(error_of(span))

    def _is_main(self, known: _SdkSpan, name: str) -> bool:
        """Whether it is the run's own agent, whose span the root is: the one that began."""
        if known.within("agent"):
            return False
        self._main = self._main or name
        return name == self._main

    def _model_started(self, known: _SdkSpan, data: Any) -> None:
        asked = getattr(data, "model", None) or self._model
        attributes: dict[str, AttributeValue] = {v.MODEL_NAME: asked, v.ACTOR: Actor.AGENT.value}
        known.span = self.recorder.start(SpanKind.MODEL, asked, parent=known.above, attributes=attributes)
        read = read_reply if known.kind == _CHAT else read_response_reply
        known.call = _ModelCall(
            recorder=self.recorder, span=known.span, instrument=self, asked=asked, read=read
        )
        MODEL_CALL.set(known.call)

    def _model_ended(self, call: _ModelCall, span: Any) -> None:
        error = error_of(span)
        cut_off = error is None and isinstance(sys.exception(), asyncio.CancelledError | GeneratorExit)
        if error is None and not cut_off and not has_reply(span.span_data):
            error = SpanFailed("no reply came")
        try:
            self._record_request(call, span.span_data)
            self._record_reply(call, span.span_data, sys.exception() if cut_off else error)
        finally:
            call.ended = True
            # Of a call that was cut off the recorder knows by what.
            if not cut_off or has_reply(span.span_data):
                call.span.end(error)

    def _record_request(self, call: _ModelCall, data: Any) -> None:
        request = call.request
        if request is None:
            request = ModelRequest(None, False, self.forms.messages(getattr(data, "input", None)))
            config = getattr(data, "model_config", None) or {}
            request.parameters = {key: value for key, value in config.items() if value is not None}
        record_request(call.span, request)

    def _record_reply(self, call: _ModelCall, data: Any, error: BaseException | None) -> None:
        reply = call.reply(error) if call.copy is not None else reply_of(data)
        record_reply(self.recorder, call.span, reply, self._tools)


@dataclass(slots=True)
class _SdkSpan:
    """A span of the SDK that has started."""

    parent: _SdkSpan | None
    kind: str
    span: SpanHandle | None = None
    """Ours for it, if it has one."""
    call: _ModelCall | None = None

    @property
    def above(self) -> SpanHandle | None:
        """The nearest span of ours above; None below the run's own agent, which is the root's."""
        above = self.parent
        while above is not None and above.span is None:
            above = above.parent
        return above.span if above is not None else None

    def within(self, kind: str) -> bool:
        """Whether a span of that kind is above."""
        above = self.parent
        while above is not None and above.kind != kind:
            above = above.parent
        return above is not None


@dataclass(slots=True, kw_only=True)
class _ModelCall(WatchedCall):
    """A model call that is running."""

    instrument: OpenAIAgentsInstrument
    asked: str
    started: int = field(default_factory=time.perf_counter_ns)
    request: ModelRequest | None = None

    def requested(self, body: bytes) -> None:
        """See `Listener`."""
        WatchedCall.requested(self, body)
        if self.ended or self.request is not None:
            return
        try:
            self.request = request = self.instrument.forms.read(body)
            self.span.set(v.MODEL_STREAM, request.stream)
            if request.model is not None and request.model != self.asked:
                self.span.set(v.MODEL_NAME, request.model)
        except Exception as error:
            self.instrument.failed("request", error)

    def reply(self, error: BaseException | None) -> ChatReply:
        """See `WatchedCall.reply`."""
        first = self.copy.first_chunk if self.copy is not None else None
        if first is not None and self.request is not None and self.request.stream:
            self.span.set(v.TIME_TO_FIRST_CHUNK, (first - self.started) / 1e9)
        return WatchedCall.reply(self, error)

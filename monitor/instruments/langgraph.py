"""The instrument for LangGraph: LangChain's asynchronous callbacks, turned into spans.

Model spans for every model call, agent spans for graphs within the run's graph. Nodes are not
recorded: their names say `model` and `tools`, and tool spans are made at the binding.

A hook that fails neither ends the run nor goes unseen: the recorder counts it and notes it on the
root span. A copied HTTP response finds its model span by a context variable that the start of the
model call sets, in the context in which the call is then made.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import UUID

from atp.protocol.spans import Actor, AttributeValue, Recorder, SpanHandle, SpanKind
from monitor import vocabulary as v
from monitor.instruments.langchain_handler import handler_class
from monitor.instruments.langchain_messages import MessageForms, canonical
from monitor.instruments.openai_http import MODEL_CALL
from monitor.instruments.openai_replies import ChatReply
from monitor.instruments.watched_call import WatchedCall, set_known

if TYPE_CHECKING:
    from langchain_core.callbacks import AsyncCallbackHandler

_NOT_PARAMETERS = frozenset({"tools", "functions", "_type", "model_name", "stream_options"})


class LangGraphInstrument:
    """Watches one attempt (implements `atp.protocol.spans.Instrument`).

    Args:
        recorder: Of the attempt.
    """

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.forms = MessageForms()
        self._runs: dict[UUID, _Run] = {}
        self._calls: dict[UUID, _ModelCall] = {}
        self._definitions: list[Any] = []
        self._offered: frozenset[str] = frozenset()
        self._handler: AsyncCallbackHandler | None = None

    @property
    def handler(self) -> AsyncCallbackHandler:
        """For `config={"callbacks": [instrument.handler]}`."""
        if self._handler is None:
            self._handler = handler_class()(self)
        return self._handler

    def close(self) -> None:
        """Let go of what is unfinished; the recorder, which knows what ended the attempt, ends it."""
        self._runs.clear()
        self._calls.clear()

    async def ready(self, *, before_call: bool = False) -> None:
        """See `SpanSink.ready`."""
        await self.recorder.ready(before_call=before_call)

    def failed(self, where: str, error: Exception) -> None:
        """A hook failed: counted and noted on the root span."""
        self.recorder.failed(where, error)

    def run_started(self, run_id: UUID, parent_id: UUID | None, name: str, tags: Sequence[str]) -> None:
        """A runnable or a tool starts: a link in the chain of runs.

        A graph is known by its nodes, which are tagged with their step; a graph below another run
        is an agent of its own. Tool spans are made at the binding.
        """
        parent = self._runs.get(parent_id) if parent_id is not None else None
        self._runs[run_id] = _Run(parent, name)
        if parent is None or parent.parent is None or parent.span is not None:
            return
        if any(tag.startswith("graph:step:") for tag in tags):
            parent.span = self.recorder.start(
                SpanKind.AGENT,
                parent.name,
                parent=parent.parent.agent,
                attributes={v.AGENT_NAME: parent.name, v.ACTOR: Actor.AGENT.value},
            )

    def run_ended(self, run_id: UUID, error: BaseException | None) -> None:
        """A runnable ends."""
        run = self._runs.pop(run_id, None)
        if run is not None and run.span is not None:
            run.span.end(error)

    def model_started(
        self, run_id: UUID, parent_id: UUID | None, messages: Sequence[Any], parameters: Mapping[str, Any]
    ) -> None:
        """A model call starts."""
        asked = str(parameters.get("model") or parameters.get("model_name") or "unknown")
        attributes: dict[str, AttributeValue] = {
            v.MODEL_NAME: asked,
            v.ACTOR: Actor.AGENT.value,
            v.MODEL_STREAM: bool(parameters.get("stream")),
        }
        run = self._runs.get(parent_id) if parent_id is not None else None
        span = self.recorder.start(
            SpanKind.MODEL, asked, parent=run.agent if run else None, attributes=attributes
        )
        call = self._calls[run_id] = _ModelCall(recorder=self.recorder, span=span)
        MODEL_CALL.set(call)
        span.set_messages(
            v.INPUT_MESSAGES,
            [message if isinstance(message, dict) else self.forms.form(message) for message in messages],
        )
        chosen = {
            key: value
            for key, value in parameters.items()
            if key not in _NOT_PARAMETERS and value is not None
        }
        span.set_body(v.MODEL_PARAMETERS, chosen)
        tools = parameters.get("tools")
        if tools:
            if tools != self._definitions:
                self._definitions = list(tools)
                self._offered = frozenset(tool.get("function", tool).get("name") for tool in tools)
            span.set_messages(v.TOOL_DEFINITIONS, self._definitions)
            call.offered = self._offered

    def first_chunk(self, run_id: UUID) -> None:
        """A chunk of a streamed reply has come."""
        call = self._calls.get(run_id)
        if call is not None and not call.streaming:
            call.streaming = True
            call.span.set(v.TIME_TO_FIRST_CHUNK, (time.perf_counter_ns() - call.started) / 1e9)

    def model_ended(self, run_id: UUID, response: Any) -> None:
        """A model call has answered."""
        call = self._calls.pop(run_id, None)
        if call is None:
            return
        try:
            self._record_reply(call, response)
        finally:
            call.ended = True
            call.span.end()

    def model_failed(self, run_id: UUID, error: BaseException) -> None:
        """A model call has failed; what came of a stream before that is kept."""
        call = self._calls.pop(run_id, None)
        if call is None:
            return
        try:
            # LangChain hands nothing on of a stream that breaks; the copy has what came.
            form = call.reply(error).message
            if form is not None:
                call.span.set_messages(v.OUTPUT_MESSAGES, [form])
        finally:
            call.ended = True
            call.span.end(error)

    def _record_reply(self, call: _ModelCall, response: Any) -> None:
        span, reply = call.span, call.reply(None)
        if not response.generations[0]:
            return  # no choice came, and LangChain raises next
        generation = response.generations[0][0]
        message = getattr(generation, "message", None)
        if message is None:  # a completion model, without messages
            form = {"role": "assistant", "parts": [{"type": "text", "content": generation.text}]}
            span.set_messages(v.OUTPUT_MESSAGES, [form])
            return
        metadata = message.response_metadata
        info = generation.generation_info or {}
        set_known(span, v.RESPONSE_ID, reply.response_id or metadata.get("id"))
        set_known(span, v.MODEL_ANSWERED, metadata.get("model_name") or reply.model)
        finish = info.get("finish_reason") or metadata.get("finish_reason")
        set_known(span, v.FINISH_REASON, finish or reply.finish_reason)
        _record_usage(span, message.usage_metadata)
        self._record_calls(call, reply, message)
        # Equal bytes are one body with the next turn's input, unless there is reasoning to add.
        form = canonical(message, reply.reasoning) if reply.reasoning else self.forms.form(message)
        span.set_messages(v.OUTPUT_MESSAGES, [form])

    def _record_calls(self, call: _ModelCall, reply: ChatReply, message: Any) -> None:
        span = call.span
        invalid = [(each["id"] or "", each["name"] or "") for each in message.invalid_tool_calls]
        announced = [(each.id, each.name) for each in reply.calls] or [
            *((each["id"] or "", each["name"]) for each in message.tool_calls),
            *invalid,
        ]
        texts = {each.id: each.arguments for each in reply.calls}
        if texts:
            span.set_body(v.TOOL_CALL_TEXTS, texts)
        if not announced:
            return
        span.set(v.ANNOUNCED_CALL_IDS, [call_id for call_id, _ in announced])
        span.set(v.ANNOUNCED_CALL_NAMES, [name for _, name in announced])
        refused = [
            call_id
            for call_id, name in announced
            if (call_id, name) in invalid or (call.offered and name not in call.offered)
        ]
        if refused:
            span.set(v.REJECTED_CALL_IDS, refused)
        written: list[str | None] = [each.arguments for each in reply.calls]
        written = written or [None] * len(announced)
        for (call_id, _), text in zip(announced, written, strict=True):
            if call_id:
                self.recorder.announce(call_id, span, text)


@dataclass(slots=True)
class _Run:
    """A runnable that is running."""

    parent: _Run | None
    name: str
    span: SpanHandle | None = None

    @property
    def agent(self) -> SpanHandle | None:
        """The nearest agent span above; None below the run's own graph, which is the root's."""
        run: _Run | None = self
        while run is not None and run.span is None:
            run = run.parent
        return run.span if run is not None else None


@dataclass(slots=True, kw_only=True)
class _ModelCall(WatchedCall):
    """A model call that is running."""

    started: int = field(default_factory=time.perf_counter_ns)
    streaming: bool = False
    offered: frozenset[str] = frozenset()


def _record_usage(span: SpanHandle, usage: Mapping[str, Any] | None) -> None:
    if usage is None:
        return
    read = usage.get("input_token_details") or {}
    written = usage.get("output_token_details") or {}
    set_known(span, v.USAGE_INPUT, usage.get("input_tokens"))
    set_known(span, v.USAGE_OUTPUT, usage.get("output_tokens"))
    set_known(span, v.USAGE_CACHE_READ, read.get("cache_read"))
    set_known(span, v.USAGE_CACHE_WRITE, read.get("cache_creation"))
    set_known(span, v.USAGE_REASONING, written.get("reasoning"))

"""The spans of model calls that the engine makes itself: for a user or a judge, marked by their actor."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from typing import Any

from atp.protocol.chat import ChatMessage
from atp.protocol.errors import ModelCallFailed
from atp.protocol.spans import (
    Actor,
    AttributeValue,
    ParentSource,
    SpanEnd,
    SpanEvent,
    SpanKind,
    SpanStart,
    SpanStatus,
)
from monitor import vocabulary as v
from monitor.bodies import attribute, body
from monitor.instruments.openai_replies import ChatReply
from monitor.message_lists import MessageLists
from monitor.recorded_span import error_type


class EngineModelCalls:
    """The model calls of one actor in one attempt. Their message lists continue each other.

    Args:
        run_id: The attempt.
        trace_id: 32 hexadecimal digits.
        actor: Whom the calls are made for.
        model: The model asked for.
    """

    def __init__(self, run_id: str, trace_id: str, actor: Actor, model: str) -> None:
        self._run_id = run_id
        self._trace_id = trace_id
        self._actor = actor
        self._model = model
        self._bodies: dict[str, bytes] = {}
        self._lists = MessageLists(self._bodies.__setitem__)

    def start(
        self, messages: Sequence[ChatMessage], parameters: Mapping[str, Any], parent_id: str
    ) -> EngineModelSpan:
        """A call begins now.

        Args:
            messages: What the model is asked.
            parameters: Sampling and other parameters of the request.
            parent_id: The attempt's root span.
        """
        asked, altered = self.messages(v.INPUT_MESSAGES, [_form(m.role, m.content) for m in messages])
        chosen, content, _ = body(dict(parameters))
        self._bodies[chosen] = content
        name = str(attribute(self._model)[0])
        start = SpanStart(
            run_id=self._run_id,
            trace_id=self._trace_id,
            span_id=secrets.token_hex(8),
            parent_id=parent_id,
            parent_source=ParentSource.HANDLE,
            kind=SpanKind.MODEL,
            name=name,
            start_ns=time.time_ns(),
            attributes={v.MODEL_NAME: name, v.ACTOR: self._actor.value, v.MODEL_STREAM: False},
            bodies={v.INPUT_MESSAGES: asked, v.MODEL_PARAMETERS: chosen},
        )
        return EngineModelSpan(self, start, altered)

    def messages(self, name: str, forms: Sequence[Any]) -> tuple[str, int]:
        """Store a list of canonical messages; its digest, and how many values got a stated form."""
        return self._lists.store(name, forms)

    def new_bodies(self) -> Mapping[str, bytes]:
        """Digest -> content of what has come since this was asked last."""
        taken = dict(self._bodies)
        self._bodies.clear()
        return taken


class EngineModelSpan:
    """A model span that has started; made by `EngineModelCalls.start`."""

    def __init__(self, calls: EngineModelCalls, start: SpanStart, altered: int) -> None:
        self.record = start
        self._calls = calls
        self._altered = altered
        self._events: list[SpanEvent] = []
        self._last_failure: ModelCallFailed | None = None

    def failed_try(self, failure: ModelCallFailed) -> None:
        """A try of this call gave no answer."""
        self._last_failure = failure
        about: dict[str, AttributeValue] = {
            "http.status_code": failure.status_code,
            "retry_count": len(self._events),
        }
        self._events.append(SpanEvent(v.FAILED_TRY, time.time_ns(), about))

    def answered(self, reply: ChatReply) -> SpanEnd:
        """The model gave a reply."""
        known = reply.attributes
        if reply.calls:
            known[v.ANNOUNCED_CALL_IDS] = [call.id for call in reply.calls]
            known[v.ANNOUNCED_CALL_NAMES] = [call.name for call in reply.calls]
        said = [] if reply.message is None else [reply.message]
        return self._end(SpanStatus.OK, known, said)

    def failed(self, error: BaseException) -> SpanEnd:
        """No reply came; a cancelled call ends as aborted."""
        status = SpanStatus.ERROR if isinstance(error, Exception) else SpanStatus.ABORTED
        return self._end(status, {}, (), error)

    def _end(
        self,
        status: SpanStatus,
        known: Mapping[str, AttributeValue],
        said: Sequence[Any],
        error: BaseException | None = None,
    ) -> SpanEnd:
        bodies = dict(self.record.bodies)
        altered = self._altered
        if said:
            bodies[v.OUTPUT_MESSAGES], count = self._calls.messages(v.OUTPUT_MESSAGES, said)
            altered += count
        # The try that a call failed with is the call itself.
        before = len(self._events) - (error is not None and error is self._last_failure)
        attributes = {**self.record.attributes, **known, v.RETRIES: before}
        if altered:
            attributes[v.VALUES_ALTERED] = altered
        return SpanEnd(
            start=self.record,
            end_ns=time.time_ns(),
            status=status,
            attributes={name: attribute(value)[0] for name, value in attributes.items()},
            bodies=bodies,
            error_type=None if error is None else error_type(error),
            error_message=None if error is None else str(attribute(str(error))[0]),
            events=tuple(self._events),
        )


def _form(role: str, content: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": content}]}

"""What a model span gets of a request and its reply."""

from __future__ import annotations

from collections.abc import Collection

from atp.protocol.spans import Recorder, SpanHandle
from monitor import vocabulary as v
from monitor.instruments.openai_replies import ChatReply
from monitor.instruments.openai_requests import ModelRequest


def record_request(span: SpanHandle, request: ModelRequest) -> None:
    """Put what the model was asked on its span."""
    span.set_messages(v.INPUT_MESSAGES, request.messages)
    span.set_body(v.MODEL_PARAMETERS, request.parameters)
    if request.tools:
        span.set_messages(v.TOOL_DEFINITIONS, request.tools)


def record_reply(
    recorder: Recorder, span: SpanHandle, reply: ChatReply, tools: Collection[str] | None
) -> None:
    """Put what the model said on its span, and announce its tool calls.

    Args:
        recorder: Of the attempt.
        span: The model call's.
        reply: What is known of it.
        tools: Names of the binding's tools: calls of others the harness answers itself. None when that is
            not known.
    """
    for name, value in reply.attributes.items():
        span.set(name, value)
    message = reply.message
    if message is not None:
        span.set_messages(v.OUTPUT_MESSAGES, [message])
    if reply.calls and not reply.broken:
        _announce(recorder, span, reply, tools)


def _announce(recorder: Recorder, span: SpanHandle, reply: ChatReply, tools: Collection[str] | None) -> None:
    span.set_body(v.TOOL_CALL_TEXTS, {each.id: each.arguments for each in reply.calls})
    span.set(v.ANNOUNCED_CALL_IDS, [each.id for each in reply.calls])
    span.set(v.ANNOUNCED_CALL_NAMES, [each.name for each in reply.calls])
    if tools is not None:
        refused = [each.id for each in reply.calls if each.name not in tools]
        if refused:
            span.set(v.REJECTED_CALL_IDS, refused)
    for each in reply.calls:
        if each.id:
            recorder.announce(each.id, span, each.arguments)

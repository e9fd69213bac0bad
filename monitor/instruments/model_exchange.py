"""What a model span gets of a request and its reply."""

from __future__ import annotations

from collections.abc import Callable, Collection

from atp.protocol.spans import Recorder, SpanHandle
from monitor import vocabulary as v
from monitor.instruments.openai_replies import AnnouncedCall, ChatReply
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
        announce(recorder, span, reply, lambda each: tools is not None and each.name not in tools)


def announce(
    recorder: Recorder, span: SpanHandle, reply: ChatReply, refused: Callable[[AnnouncedCall], bool]
) -> None:
    """Put the tool calls that a reply asks for on its span, and tell the recorder of each.

    Args:
        recorder: Of the attempt.
        span: The model call's.
        reply: One with calls.
        refused: Whether the harness answers a call itself.
    """
    span.set_body(v.TOOL_CALL_TEXTS, {each.id: each.arguments for each in reply.calls})
    span.set(v.ANNOUNCED_CALL_IDS, [each.id for each in reply.calls])
    span.set(v.ANNOUNCED_CALL_NAMES, [each.name for each in reply.calls])
    rejected = [each.id for each in reply.calls if refused(each)]
    if rejected:
        span.set(v.REJECTED_CALL_IDS, rejected)
    for each in reply.calls:
        if each.id:
            recorder.announce(each.id, span, each.arguments)

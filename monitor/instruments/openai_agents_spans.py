"""What the spans of the OpenAI Agents SDK say themselves: how they ended, and, where no copy was taken
of a model call, what it gave.

A model that does not speak through the watched HTTP client (another provider's, a user's own) is
known by its span alone: without finish reason, tool definitions or what its client tried again.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from typing import Any

from monitor.instruments.openai_replies import ChatReply, read_completion
from monitor.instruments.openai_responses_replies import read_response, response_usage


def reply_of(data: Any) -> ChatReply:
    """The reply that a span tells of.

    Args:
        data: A `GenerationSpanData` or `ResponseSpanData` that has ended.
    """
    reply = ChatReply()
    response = getattr(data, "response", None)
    if response is not None:
        read_response(response.model_dump(mode="json"), reply)
    for output in getattr(data, "output", None) or ():
        if output.get("object") == "response":
            # Of a stream the SDK makes a response, whose id is the same for all.
            read_response(output, reply)
            reply.response_id = reply.finish_reason = None
        else:
            read_completion({"choices": [{"message": output}]}, reply)
    usage = getattr(data, "usage", None)
    # The SDK writes zeros where the provider said nothing.
    if isinstance(usage, Mapping) and usage.get("input_tokens"):
        reply.usage = response_usage(usage)
    return reply


def has_reply(data: Any) -> bool:
    """Whether the model call that a span tells of was answered."""
    return any(getattr(data, name, None) is not None for name in ("usage", "response", "output"))


class SpanFailed(Exception):
    """What a span of the SDK says of its error, where the exception itself is out of reach."""


def error_of(span: Any) -> BaseException | None:
    """What ended a span that has an error, preferably as the exception that is being raised."""
    if span.error is None:
        return None
    raised = sys.exception()
    if raised is not None and not isinstance(raised, (asyncio.CancelledError, GeneratorExit)):
        return raised
    detail = (span.error.get("data") or {}).get("error")
    return SpanFailed(f"{span.error['message']}: {detail}" if detail else span.error["message"])

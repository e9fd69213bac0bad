"""What ADK itself knows of a reply: of a model that no watched client asks, and for its own account."""

from __future__ import annotations

import json
from typing import Any

from atp.protocol.model import Dialect
from atp.protocol.trace import Usage
from monitor.instruments.openai_replies import AnnouncedCall, ChatReply


def reply_of(response: Any, dialect: Dialect) -> ChatReply:
    """The reply that an `LlmResponse`, or an event made of one, tells of.

    Args:
        response: A whole one, not a part of a stream.
        dialect: In which the model was asked.
    """
    reply = ChatReply(
        response_id=response.interaction_id,
        model=response.model_version,
        usage=usage_of(response.usage_metadata, dialect),
    )
    for part in response.content.parts or () if response.content is not None else ():
        if part.function_call is not None:
            call = part.function_call
            arguments = json.dumps(call.args or {}, ensure_ascii=False)
            reply.calls.append(AnnouncedCall(call.id or "", call.name or "", arguments))
        elif part.text and part.thought:
            reply.reasoning = (reply.reasoning or "") + part.text
        elif part.text:
            reply.text = (reply.text or "") + part.text
    return reply


def usage_of(usage: Any, dialect: Dialect) -> Usage | None:
    """Usage as ADK keeps it, in Gemini's fields; of OpenAI's replies the candidates' tokens include those of
    thoughts, of Gemini's they do not."""
    if usage is None:
        return None
    said, thought = usage.candidates_token_count, usage.thoughts_token_count
    apart = dialect is Dialect.GEMINI and thought is not None
    # Not validated: a provider may say anything.
    return Usage.model_construct(
        input_tokens=usage.prompt_token_count,
        output_tokens=(said or 0) + thought if apart else said,
        cache_read_tokens=usage.cached_content_token_count,
        cache_write_tokens=None,
        reasoning_tokens=thought,
    )

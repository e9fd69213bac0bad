"""Which dialect answers on which path below a session's own."""

from __future__ import annotations

from collections.abc import Mapping

from atp.models.scripted.dialects import gemini
from atp.models.scripted.dialects.anthropic_messages import AnthropicMessages
from atp.models.scripted.dialects.dialect import WireDialect
from atp.models.scripted.dialects.openai_chat import OpenAIChat
from atp.models.scripted.dialects.openai_responses import OpenAIResponses
from atp.protocol.model import Dialect

DIALECTS: Mapping[Dialect, WireDialect] = {
    Dialect.OPENAI_CHAT: OpenAIChat(),
    Dialect.OPENAI_RESPONSES: OpenAIResponses(),
    Dialect.ANTHROPIC_MESSAGES: AnthropicMessages(),
    Dialect.GEMINI: gemini.Gemini(),
}

BASE_PATHS: Mapping[Dialect, str] = {
    Dialect.OPENAI_CHAT: "/v1",
    Dialect.OPENAI_RESPONSES: "/v1",
    Dialect.ANTHROPIC_MESSAGES: "",
    Dialect.GEMINI: "",
}
"""What a client's base URL has behind the session's path: clients of Anthropic and of Gemini add the version
themselves."""

ROUTES: Mapping[str, Dialect] = {
    "v1/chat/completions": Dialect.OPENAI_CHAT,
    "v1/responses": Dialect.OPENAI_RESPONSES,
    "v1/messages": Dialect.ANTHROPIC_MESSAGES,
}
"""Path below `/s/<session>/` -> dialect, of those that name no model; all by POST."""

SERVED = (*ROUTES, "v1beta/models/MODEL:generateContent", "v1beta/models/MODEL:streamGenerateContent")
"""All of them, in words."""


def split_path(path: str) -> tuple[str | None, str]:
    """`/s/<session>/<rest>` in its two parts; (None, "") for any other path."""
    parts = path.split("/", 3)
    if len(parts) != 4 or parts[0] or parts[1] != "s":
        return None, ""
    return parts[2], parts[3]


def dialect_at(rest: str) -> Dialect | None:
    """The dialect that answers on a path below a session's own; None where none does."""
    return Dialect.GEMINI if gemini.PATH.fullmatch(rest) else ROUTES.get(rest)


def spoken_at(rest: str) -> Dialect:
    """The dialect in which a path below a session's own is answered, if only by an error."""
    if rest.startswith("v1/messages/"):
        return Dialect.ANTHROPIC_MESSAGES
    return dialect_at(rest) or Dialect.OPENAI_CHAT

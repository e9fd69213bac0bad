"""Which dialect answers on which path below a session's base URL."""

from __future__ import annotations

from collections.abc import Mapping

from atp.models.scripted.dialects.dialect import WireDialect
from atp.models.scripted.dialects.openai_chat import OpenAIChat
from atp.models.scripted.dialects.openai_responses import OpenAIResponses
from atp.protocol.model import Dialect

DIALECTS: Mapping[Dialect, WireDialect] = {
    Dialect.OPENAI_CHAT: OpenAIChat(),
    Dialect.OPENAI_RESPONSES: OpenAIResponses(),
}

ROUTES: Mapping[str, Dialect] = {
    "chat/completions": Dialect.OPENAI_CHAT,
    "responses": Dialect.OPENAI_RESPONSES,
}
"""Path below `/s/<session>/v1/` -> dialect; all by POST."""

"""A model that the engine calls itself, on behalf of somebody who is not the agent: a user, a judge."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from atp.protocol.base import Frozen


class ChatMessage(Frozen):
    """One message of the conversation that the model is to go on with."""

    role: Literal["system", "user", "assistant"]
    content: str


class ChatModel(Protocol):
    """Says what comes next. Every call is recorded; none counts for the agent."""

    async def complete(self, messages: Sequence[ChatMessage], *, temperature: float | None = None) -> str:
        """The text of the next message.

        Args:
            messages: All messages so far, the system's first.
            temperature: Of the sampling; None leaves the provider's default.

        Raises:
            ModelCallFailed: No reply came, after the tries that made sense, or one without text. Let it
                pass: it ends the attempt as a fault of the infrastructure, never of the benchmark.
        """

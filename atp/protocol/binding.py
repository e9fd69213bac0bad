"""The only door from a harness to the world."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Literal, Protocol, final

from pydantic import JsonValue

from atp.protocol.base import Frozen
from atp.protocol.environment import ToolSpec, UserTurn
from atp.protocol.errors import ToolFailed
from atp.protocol.spans import SpanHandle
from atp.protocol.unicode_text import well_formed


class ToolResult(Frozen):
    """What a tool call gave."""

    value: JsonValue = None
    error: str | None = None

    @property
    def text(self) -> str:
        """What the model reads: the error, a string as it is, anything else as JSON; half of a surrogate
        pair, which no model API takes, as U+FFFD."""
        if self.error is not None:
            return well_formed(self.error)
        text = self.value if isinstance(self.value, str) else json.dumps(self.value, ensure_ascii=False)
        return well_formed(text)


class BindingPort(Protocol):
    """What stands behind a binding: the engine, across the link."""

    async def call(
        self, name: str, arguments: JsonValue, call_id: str | None, parent: SpanHandle | None
    ) -> ToolResult:
        """Validate, execute and record one tool call in the engine."""

    async def user_open(self) -> UserTurn:
        """The user's first line."""

    async def user_reply(self, text: str) -> UserTurn:
        """The user's answer."""


@final
class AgentBinding:
    """One attempt's tools, user and system prompt, as the harness side sees them."""

    __slots__ = ("_port", "has_user", "system_prompt", "tool_errors", "tools", "workspace")

    def __init__(
        self,
        port: BindingPort,
        *,
        system_prompt: str | None = None,
        tools: Sequence[ToolSpec] = (),
        has_user: bool = False,
        workspace: str | None = None,
        tool_errors: Literal["return", "raise"] = "return",
    ) -> None:
        self._port = port
        self.system_prompt = system_prompt
        self.tools = tuple(tools)
        self.has_user = has_user
        self.workspace = workspace
        self.tool_errors = tool_errors

    async def call(
        self,
        name: str,
        arguments: JsonValue,
        call_id: str | None = None,
        parent: SpanHandle | None = None,
    ) -> ToolResult:
        """Call a tool; arguments are executed as delivered, without repair.

        Args:
            name: The tool.
            arguments: The arguments object as the harness has it.
            call_id: The model's id of this call, where the harness knows it.
            parent: The span the call belongs to, where the harness knows it.

        Returns:
            The result; a tool that failed gives error text the model can read.

        Raises:
            ToolFailed: The tool failed and `tool_errors` is "raise".
        """
        result = await self._port.call(name, arguments, call_id, parent)
        if result.error is not None and self.tool_errors == "raise":
            raise ToolFailed(result.error)
        return result

    async def user_open(self) -> UserTurn:
        """The user's first line; only where `has_user`."""
        return await self._port.user_open()

    async def user_reply(self, text: str) -> UserTurn:
        """Say something to the user and get the answer; only where `has_user`."""
        return await self._port.user_reply(text)

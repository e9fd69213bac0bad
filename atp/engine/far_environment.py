"""An environment in a benchmark's worker, as the engine's door sees it."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from typing import Any

from pydantic import JsonValue, TypeAdapter

from atp.engine.workers import Worker
from atp.protocol.environment import Environment, ToolSpec, User, UserTurn
from atp.protocol.errors import ToolFailed
from atp.protocol.task import TaskInput
from atp.worker.link import Message
from atp.worker.messages import Failure

_TURN: TypeAdapter[UserTurn] = TypeAdapter(UserTurn)


class FarEnvironment(Environment):
    """One attempt's world in the worker. When that process dies, the world is gone: `WorkerDied`.

    Args:
        worker: Gives the process, starting it where there is none.
        task: Whose world.
    """

    def __init__(self, worker: Callable[[], Awaitable[Worker]], task: TaskInput) -> None:
        self._find_worker = worker
        self._task = task
        self._name = secrets.token_hex(8)
        self._worker: Worker | None = None

    async def open(self) -> None:
        """See `Environment.open`."""
        self._worker = await self._find_worker()
        reply = await self._ask("the environment", "open", task=self._task)
        self.system_prompt = reply["system_prompt"]
        self.tools = tuple(ToolSpec.model_validate(tool) for tool in reply["tools"])
        self.user = _FarUser(self._ask) if reply["has_user"] else None
        self.workspace = reply["workspace"]
        self.checks_arguments = reply["checks_arguments"]

    async def execute(self, name: str, arguments: dict[str, Any]) -> JsonValue:
        """See `Environment.execute`. Calls reach the worker in the order in which they are made."""
        reply = await self._ask(f"tool {name!r}", "execute", name=name, arguments=arguments)
        if reply["error"] is not None:
            raise ToolFailed(reply["error"])
        value: JsonValue = reply["value"]
        return value

    async def close(self) -> None:
        """See `Environment.close`."""
        if self._worker is not None:
            await self._ask("the environment", "close")

    async def _ask(self, what: str, request: str, **more: Any) -> Message:
        assert self._worker is not None  # nothing is asked before it is open
        return told(await self._worker.ask({"type": request, "environment": self._name, **more}), what)


class _FarUser(User):
    def __init__(self, ask: Callable[..., Awaitable[Message]]) -> None:
        self._ask = ask

    async def open(self) -> UserTurn:
        """See `User.open`."""
        return await self._turn(None)

    async def reply(self, text: str) -> UserTurn:
        """See `User.reply`."""
        return await self._turn(text)

    async def _turn(self, text: str | None) -> UserTurn:
        reply = await self._ask("the user", "turn", text=text)
        return _TURN.validate_python(reply["turn"])


def told(reply: Message, what: str) -> Message:
    """The reply, of which nothing failed.

    Args:
        reply: Of a benchmark's worker.
        what: What was asked, for the message: `the grader`.

    Raises:
        AtpError: What the worker says went wrong, by its fault.
    """
    if reply["failure"] is not None:
        raise Failure.model_validate(reply["failure"]).error(what)
    return reply

"""The world a benchmark gives to one attempt: tools, a user, state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, Protocol, TypeAlias

from pydantic import Discriminator, Field, JsonValue

from atp.protocol.base import Frozen, JsonObject
from atp.protocol.chat import ChatModel
from atp.protocol.task import TextPart
from atp.protocol.unicode_text import well_formed


class ToolSpec(Frozen):
    """A tool as the benchmark declares it. Harnesses put `parameters` on the wire verbatim."""

    name: str = Field(pattern=r"^[A-Za-z0-9_.-]{1,128}$")
    description: str = ""
    parameters: JsonObject
    """JSON Schema of the arguments object."""


class UserText(Frozen):
    """The user says something."""

    type: Literal["text"] = "text"
    text: str

    @property
    def part(self) -> TextPart:
        """The line as a part of an instruction; see `well_formed`."""
        return TextPart(text=well_formed(self.text))


class UserStop(Frozen):
    """The user ends the conversation."""

    type: Literal["stop"] = "stop"
    reason: str


class UserTransfer(Frozen):
    """The conversation is handed to somebody else."""

    type: Literal["transfer"] = "transfer"
    reason: str


UserTurn: TypeAlias = Annotated[UserText | UserStop | UserTransfer, Discriminator("type")]


class User(Protocol):
    """Whom the agent talks to. Lives in the engine."""

    async def open(self) -> UserTurn:
        """The first line."""

    async def reply(self, text: str) -> UserTurn:
        """The answer to what the agent said."""


class Environment:
    """One attempt's world. Fresh for every attempt; a benchmark overrides what it has.

    Every method is async, exchanges plain data and never blocks the event loop: work that takes
    longer than a few milliseconds goes to a thread or a process.
    """

    system_prompt: str | None = None
    """Given to the harness where its SDK documents it; None when the benchmark has none."""
    tools: Sequence[ToolSpec] = ()
    user: User | None = None
    user_model: ChatModel | None = None
    """The model to play the user with (`--user-model`), handed over before `open`; None when there is
    none. It speaks once the agent's run has begun, hence from `user.open` on."""
    workspace: str | None = None
    """A directory the agent works in, or None."""
    checks_arguments: bool = True
    """Whether arguments are held against the tool's schema before `execute` sees them. False for a
    benchmark whose official tools take any JSON object and judge it themselves."""

    tool_errors: Literal["return", "raise"] = "return"
    """What becomes of a tool that fails: text for the model, alike for every harness; or `raise`, which
    hands the failure to the SDK, to see what that makes of it."""

    async def open(self) -> None:
        """Make the world ready. Raising here is a `benchmark_error` of set-up."""

    async def execute(self, name: str, arguments: dict[str, Any]) -> JsonValue:
        """Run one tool.

        Args:
            name: A name out of `tools`.
            arguments: As the harness delivered them; they satisfy the tool's schema where
                `checks_arguments` says so.

        Returns:
            Plain data; a string reaches the model as it is, anything else as JSON.

        Raises:
            ToolFailed: The tool failed in a way the model should read about.
        """
        raise LookupError(f"the environment offers no tool named {name!r}")

    async def close(self) -> None:
        """Let go of everything. Called once, also after a failed `open`."""

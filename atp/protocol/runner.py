"""What a harness adapter implements."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from pydantic import Field, JsonValue

from atp.protocol.base import Frozen
from atp.protocol.binding import AgentBinding
from atp.protocol.environment import UserText, UserTransfer
from atp.protocol.model import Limits, ModelEndpoint, Sampling
from atp.protocol.own_agents import OwnAgent
from atp.protocol.spans import Instrument, Recorder
from atp.protocol.status import StopReason
from atp.protocol.task import AgentTask, Part
from atp.protocol.trace import Artifact, TaskTrace, Usage


@dataclass(frozen=True, slots=True)
class RunContext:
    """What a runner gets beside task and binding.

    A cancel reaches the runner as `asyncio.CancelledError` in `run`; what runs in threads of its
    own, the adapter ends in its `finally`.
    """

    run_id: str
    model: ModelEndpoint
    sampling: Sampling
    limits: Limits
    recorder: Recorder
    instrument: Instrument | None
    """None only when the user said `--no-monitor`."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """`-o harness.KEY=V`."""
    own_agent: OwnAgent | None = None
    """What makes the user's own agent, to be run in place of the adapter's."""


class AgentRunner(Protocol):
    """Runs a task through a harness, as the harness is."""

    async def run(self, task: AgentTask, binding: AgentBinding, context: RunContext) -> TaskTrace:
        """Run to the end and say what the harness itself says about it. Exceptions of the SDK
        pass through: the status table knows them."""


class Reply(Frozen):
    """What the harness says after one user line."""

    text: str | None = None
    stop_reason: StopReason = StopReason.ANSWERED
    usage: Usage | None = None
    """Tokens of this reply by the harness's own account."""
    model_calls: int | None = Field(default=None, ge=0)
    """Model calls of this reply by the harness's own account."""
    response_ids: tuple[str, ...] | None = None
    artifacts: tuple[Artifact, ...] = ()
    native: Mapping[str, JsonValue] = Field(default_factory=dict)


class Conversation(Protocol):
    """An open conversation, continued in the harness's own memory or session."""

    async def send(self, parts: Sequence[Part]) -> Reply:
        """One user line in, the harness's reply out."""

    async def close(self) -> None:
        """Let go of clients and sessions."""


class ConversationRunner(ABC):
    """The loop user line -> reply -> user line; the adapter only opens conversations."""

    @abstractmethod
    async def open(self, binding: AgentBinding, context: RunContext) -> Conversation:
        """Start a conversation with the binding's tools and system prompt."""

    async def run(self, task: AgentTask, binding: AgentBinding, context: RunContext) -> TaskTrace:
        """See `AgentRunner.run`."""
        conversation = await self.open(binding, context)
        replies: list[Reply] = []
        try:
            if not binding.has_user:
                replies.append(await conversation.send(task.instruction))
                stop = replies[-1].stop_reason
            else:
                stop = await _converse(conversation, binding, replies)
        finally:
            await conversation.close()
        return _trace(replies, stop)


async def _converse(conversation: Conversation, binding: AgentBinding, replies: list[Reply]) -> StopReason:
    turn = await binding.user_open()
    while isinstance(turn, UserText):
        reply = await conversation.send((turn.part,))
        replies.append(reply)
        if reply.stop_reason is not StopReason.ANSWERED:
            return reply.stop_reason
        turn = await binding.user_reply(reply.text or "")
    return StopReason.TRANSFER if isinstance(turn, UserTransfer) else StopReason.USER_STOP


def _trace(replies: Sequence[Reply], stop: StopReason) -> TaskTrace:
    usages = [reply.usage for reply in replies]
    calls = [reply.model_calls for reply in replies]
    ids = [reply.response_ids for reply in replies]
    return TaskTrace(
        final_answer=replies[-1].text if replies else None,
        stop_reason=stop,
        harness_usage=Usage.total(usage for usage in usages if usage)
        if usages and None not in usages
        else None,
        harness_model_calls=sum(n for n in calls if n) if calls and None not in calls else None,
        response_ids=tuple(i for group in ids for i in group or ()) if ids and None not in ids else None,
        replies=tuple(reply.text for reply in replies if reply.text is not None),
        artifacts=tuple(artifact for reply in replies for artifact in reply.artifacts),
        native={key: value for reply in replies for key, value in reply.native.items()},
    )

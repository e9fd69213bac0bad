"""The model that plays one attempt's user: the benchmark calls it, here it is recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from atp.engine.model_sources import ModelSession, ModelSource
from atp.protocol.chat import ChatMessage
from atp.protocol.errors import BenchmarkError, ModelCallFailed
from atp.protocol.records import ModelCallRecord
from atp.protocol.spans import Actor, SpanEnd, SpanStart
from atp.protocol.task import TaskInput
from atp.protocol.trace import RecordCheck, Usage
from monitor.instruments.openai_replies import ChatReply, read_reply
from monitor.model_spans import EngineModelCalls
from monitor.records import compare, model_calls

if TYPE_CHECKING:
    from atp.models.chat_client import ChatClient


class SpanStore(Protocol):
    """Where the spans go; `atp.store.store.Store` is one."""

    def post_record(
        self, bodies: Mapping[str, bytes], starts: Sequence[SpanStart] = (), ends: Sequence[SpanEnd] = ()
    ) -> None:
        """Store without waiting."""

    async def record(
        self, bodies: Mapping[str, bytes], starts: Sequence[SpanStart] = (), ends: Sequence[SpanEnd] = ()
    ) -> None:
        """Store; returns when it is durable."""


@dataclass(frozen=True)
class UserPlan:
    """How the users of one cell's attempts are played."""

    model: str
    source: ModelSource
    client: ChatClient

    async def open(
        self,
        run_id: str,
        trace_id: str,
        task: TaskInput,
        repeat: int,
        store: SpanStore,
        ended: Callable[[SpanEnd], None],
    ) -> UserModel:
        """The user's model of one attempt; `ended` hears of each of its calls."""
        session = await self.source.open(run_id, task, repeat)
        calls = EngineModelCalls(run_id, trace_id, Actor.USER_SIMULATOR, self.model)
        return UserModel(session, self.client, calls, store, ended)


class UserModel:
    """Plays one attempt's user (implements `atp.protocol.chat.ChatModel`); made by `UserPlan.open`."""

    def __init__(
        self,
        session: ModelSession,
        client: ChatClient,
        calls: EngineModelCalls,
        store: SpanStore,
        ended: Callable[[SpanEnd], None],
    ) -> None:
        self._session = session
        self._client = client
        self._calls = calls
        self._store = store
        self._tell = ended
        self._ended: list[SpanEnd] = []
        self._log: Sequence[ModelCallRecord] | None = None
        self.parent_id: str | None = None
        """The attempt's root span; None until its run has begun."""

    async def complete(self, messages: Sequence[ChatMessage], *, temperature: float | None = None) -> str:
        """See `ChatModel.complete`; returns when the call's span is durable.

        Raises:
            BenchmarkError: The agent's run has not begun.
        """
        if self.parent_id is None:
            raise BenchmarkError("the user's model was called before the agent's run began")
        parameters = {} if temperature is None else {"temperature": temperature}
        span = self._calls.start(messages, parameters, self.parent_id)
        self._store.post_record(self._calls.new_bodies(), [span.record])
        try:
            content = await self._client.complete(
                self._session.endpoint, messages, temperature=temperature, failed=span.failed_try
            )
            reply = _read(content)
        except asyncio.CancelledError as error:
            end = self._kept(span.failed(error))
            self._store.post_record(self._calls.new_bodies(), ends=[end])
            raise
        except ModelCallFailed as error:
            end = self._kept(span.failed(error))
            await self._store.record(self._calls.new_bodies(), ends=[end])
            raise
        end = self._kept(span.answered(reply))
        await self._store.record(self._calls.new_bodies(), ends=[end])
        if reply.text is None or not reply.text.strip():
            raise ModelCallFailed(
                f"the user's model said nothing (response {reply.response_id}, "
                f"finish reason {reply.finish_reason!r})"
            )
        return reply.text

    async def close(self) -> None:
        """Let go of the session; what its endpoint saw is compared afterwards."""
        self._log = await self._session.close()

    @property
    def turns(self) -> int:
        """Model calls that answered."""
        return sum(call.answered for call in model_calls(self._ended))

    @property
    def usage(self) -> Usage:
        """Their tokens."""
        return Usage.total(call.usage for call in model_calls(self._ended) if call.answered) or Usage()

    def compared(self, check: RecordCheck) -> RecordCheck:
        """The comparison of the agent's records, with that of the user's calls added where its endpoint
        keeps a log."""
        if self._log is None:
            return check
        own = compare(self._log, model_calls(self._ended), None, None)
        if not own.differences:
            return check
        named = tuple(f"user: {difference}" for difference in own.differences)
        return check.model_copy(update={"agree": False, "differences": (*check.differences, *named)})

    def _kept(self, end: SpanEnd) -> SpanEnd:
        self._ended.append(end)
        self._tell(end)
        return end


def _read(content: bytes) -> ChatReply:
    try:
        return read_reply("application/json", content)
    except (ValueError, TypeError, AttributeError) as error:  # JSON, but of another shape
        shown = content[:200].decode("utf-8", "replace")
        raise ModelCallFailed(f"the user's model gave no chat completion but {shown!r}") from error

"""Where an attempt's model comes from: a provider, or the scripted endpoint of this run."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Protocol

from atp.engine.recordings import Recordings, SlotKey
from atp.models.providers import provider_endpoint
from atp.models.ref import SCRIPTED, ModelRef
from atp.models.scripted.endpoint import ScriptedEndpoint, ScriptedSession
from atp.models.scripted.policies import policy_for, replay_policy
from atp.models.scripted.script import Script
from atp.protocol.model import Dialect, ModelEndpoint
from atp.protocol.records import ModelCallRecord
from atp.protocol.spans import Actor
from atp.protocol.task import TaskInput


class ModelSession(Protocol):
    """One attempt's model."""

    @property
    def endpoint(self) -> ModelEndpoint:
        """What the harness calls."""

    async def close(self) -> Sequence[ModelCallRecord] | None:
        """What the endpoint itself saw; None where its log cannot be had."""


class ModelSource(Protocol):
    """Gives every attempt its model."""

    @property
    def address(self) -> str:
        """Whose capacity its model calls take: sources of one address share it."""

    async def open(self, run_id: str, task: TaskInput, repeat: int) -> ModelSession:
        """A session for one attempt at the task's slot of this number, from 0."""


class ProviderSource:
    """A real provider: the same endpoint for all, and no log to be had."""

    def __init__(self, endpoint: ModelEndpoint) -> None:
        self.endpoint = endpoint
        self.address = endpoint.base_url

    async def open(self, run_id: str, task: TaskInput, repeat: int) -> ModelSession:
        """See `ModelSource.open`."""
        return self

    async def close(self) -> None:
        """See `ModelSession.close`."""
        return


class ScriptedSource:
    """A scripted model: each attempt has a path and key of its own, and the log is ours.

    Args:
        endpoint: The running endpoint process.
        model: Which scripted model; a script's file is read now.
        idiom: How the harness wants things said.
        dialect: The wire format.
        actor: Whom it speaks for. The agent's session is called as its run, the others with their name
            behind it.
    """

    address = SCRIPTED

    def __init__(
        self,
        endpoint: ScriptedEndpoint,
        model: ModelRef,
        idiom: str,
        dialect: Dialect,
        actor: Actor = Actor.AGENT,
    ) -> None:
        self._endpoint = endpoint
        self._model = model
        self._script = Script.load(model.script_path) if model.script_path else None
        self._idiom = idiom
        self._dialect = dialect
        self._actor = actor

    async def open(self, run_id: str, task: TaskInput, repeat: int) -> ModelSession:
        """See `ModelSource.open`."""
        policy = policy_for(self._model, task, self._script)
        name = run_id if self._actor is Actor.AGENT else f"{run_id}.{self._actor}"
        session = await self._endpoint.open(name, policy=policy, idiom=self._idiom, actor=self._actor)
        return _ScriptedModelSession(session, session.model_endpoint(self._dialect, str(self._model)))


class ReplaySource:
    """A stored run, repeated by the scripted endpoint.

    Args:
        endpoint: The running endpoint process.
        recordings: Of the cell.
        model: A replay.
        idiom: How the harness wants things said: by it the endpoint knows its replies again.
        dialect: The wire format.
    """

    address = SCRIPTED

    def __init__(
        self,
        endpoint: ScriptedEndpoint,
        recordings: Recordings,
        model: ModelRef,
        idiom: str,
        dialect: Dialect,
    ) -> None:
        self._endpoint = endpoint
        self._recordings = recordings
        self._model = model
        self._idiom = idiom
        self._dialect = dialect

    async def open(self, run_id: str, task: TaskInput, repeat: int) -> ModelSession:
        """See `ModelSource.open`."""
        slot = SlotKey(task.task_id, repeat)
        policy = await asyncio.to_thread(lambda: replay_policy(self._recordings.recording(slot)))
        session = await self._endpoint.open(run_id, policy=policy, idiom=self._idiom)
        return _ScriptedModelSession(session, session.model_endpoint(self._dialect, str(self._model)))


def user_source(
    model: ModelRef, endpoint: ScriptedEndpoint | None, base_url: str | None, environ: Mapping[str, str]
) -> ModelSource:
    """Where the model comes from that plays users; the engine's own client speaks to it.

    Args:
        model: Which.
        endpoint: The running endpoint process; there is one for a scripted model.
        base_url: Of the provider's server, where it is not the usual one.
        environ: Where provider keys and base URLs are looked up.
    """
    if endpoint is not None and model.simulated:
        return ScriptedSource(endpoint, model, "plain", Dialect.OPENAI_CHAT, Actor.USER_SIMULATOR)
    return ProviderSource(provider_endpoint(model, Dialect.OPENAI_CHAT, base_url, environ))


class _ScriptedModelSession:
    def __init__(self, session: ScriptedSession, endpoint: ModelEndpoint) -> None:
        self._session = session
        self.endpoint = endpoint

    async def close(self) -> Sequence[ModelCallRecord]:
        return await self._session.close()

"""Where an attempt's model comes from: a provider, or the scripted endpoint of this run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from atp.models.ref import SCRIPTED, ModelRef
from atp.models.scripted.endpoint import ScriptedEndpoint, ScriptedSession
from atp.models.scripted.policies import policy_for
from atp.models.scripted.script import Script
from atp.protocol.model import Dialect, ModelEndpoint
from atp.protocol.records import ModelCallRecord
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

    async def open(self, run_id: str, task: TaskInput) -> ModelSession:
        """A session for one attempt."""


class ProviderSource:
    """A real provider: the same endpoint for all, and no log to be had."""

    def __init__(self, endpoint: ModelEndpoint) -> None:
        self.endpoint = endpoint
        self.address = endpoint.base_url

    async def open(self, run_id: str, task: TaskInput) -> ModelSession:
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
    """

    def __init__(self, endpoint: ScriptedEndpoint, model: ModelRef, idiom: str, dialect: Dialect) -> None:
        self.address = SCRIPTED
        self._endpoint = endpoint
        self._model = model
        self._script = Script.load(model.script_path) if model.script_path else None
        self._idiom = idiom
        self._dialect = dialect

    async def open(self, run_id: str, task: TaskInput) -> ModelSession:
        """See `ModelSource.open`."""
        policy = policy_for(self._model, task, self._script)
        session = await self._endpoint.open(run_id, policy=policy, idiom=self._idiom)
        return _ScriptedModelSession(session, session.model_endpoint(self._dialect, str(self._model)))


class _ScriptedModelSession:
    def __init__(self, session: ScriptedSession, endpoint: ModelEndpoint) -> None:
        self._session = session
        self.endpoint = endpoint

    async def close(self) -> Sequence[ModelCallRecord]:
        return await self._session.close()

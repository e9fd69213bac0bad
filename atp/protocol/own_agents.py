"""A user's own agent: what its factory gets, and how it is called.

The factory is a function of the user's, `module:factory` on the command line. A harness adapter calls
it once for each attempt, in the worker, with one `AgentParts`; it gives the SDK's own agent.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, TypeAlias

from atp.protocol.cards import FactorySource
from atp.protocol.errors import PluginError


@dataclass(frozen=True, slots=True)
class AgentParts:
    """What an attempt gives to the factory of a user's own agent, ready to be put into it."""

    model: Any
    """The SDK's own model object, for the attempt's endpoint, with the sampling and time-out that were
    asked for: LangChain's `ChatOpenAI`, a `Model` of the OpenAI Agents SDK, `OpenAIModel` of
    smolagents, `OpenAICompletion` of CrewAI, or `Gemini` or an OpenAI model of ADK. Model calls that are
    made otherwise are not seen."""
    tools: Sequence[Any]
    """The benchmark's tools as the SDK's own tool objects. Each agent may have all, some or none."""
    system_prompt: str | None
    """The benchmark's; None when it has none. Where it goes, and what stands around it, is the agent's."""
    held: AsyncExitStack
    """Closed when the attempt ends, by the task that calls the factory: for what an agent opens, such as
    the connection to an MCP server (`await parts.held.enter_async_context(server)`)."""


AgentFactory: TypeAlias = Callable[[AgentParts], Any]
"""Gives the SDK's agent, or an awaitable of it. Called on the worker's event loop."""


@dataclass(frozen=True, slots=True)
class OwnAgent:
    """A factory that has been loaded, and where it is from."""

    source: FactorySource
    factory: AgentFactory

    async def build(self, parts: AgentParts, kind: type | tuple[type, ...], described: str) -> Any:
        """Make the agent of one attempt.

        Args:
            parts: For the factory.
            kind: What it has to give back.
            described: That in words: `a LangGraph graph`.

        Raises:
            PluginError: The factory raised, or gave back something else.
        """
        try:
            agent = self.factory(parts)
            if inspect.isawaitable(agent):
                agent = await agent
        except Exception as error:
            raise PluginError(f"{self.source.path} raised {type(error).__name__}: {error}") from error
        if not isinstance(agent, kind):
            raise PluginError(
                f"{self.source.path} gave back {_article(type(agent).__name__)}, not {described}; "
                f"it is run as an agent of {self.source.sdk!r} (-o harness.sdk=NAME says another)"
            )
        return agent


def _article(name: str) -> str:
    return f"{'an' if name[0] in 'AEIOUaeiou' else 'a'} {name}"

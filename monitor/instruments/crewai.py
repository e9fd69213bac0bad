"""The instrument for CrewAI: its events, heard as they are sent, turned into spans.

Model spans for every model call, agent spans for the agents of a crew and for those that work is
delegated to. When a call and an agent begin and end is said by CrewAI's events. They are taken from a
sink of `crewai.events.stream_context`, on which CrewAI's own streaming is built, and not from the event
bus: that hands events to its listeners in threads of its own, later and in no order, so that a span
would begin when its call is over. A sink is called where the event is sent, and belongs to the context
of one turn, so it hears of no other attempt.

What was asked and answered comes from the HTTP clients that its OpenAI client is given: the events have
neither reasoning text nor the arguments of a refused call, and know nothing of repeated requests.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextvars import ContextVar
from functools import lru_cache
from typing import Any

from atp.protocol.spans import Recorder, SpanHandle
from monitor.instruments.openai_http import MODEL_CALL, copying_asynchronous_client, copying_client
from monitor.instruments.openai_replies import AnnouncedCall
from monitor.instruments.threaded_calls import ModelCall, ThreadedInstrument

_AGENTS: ContextVar[tuple[SpanHandle | None, ...]] = ContextVar("atp_crewai_agents", default=())
"""The agents at work in this context below the attempt's own, the innermost last; None for one of which
no span could be started."""


class CallFailed(Exception):
    """What an event says of an error, where the exception itself is out of reach."""


class CrewAIInstrument(ThreadedInstrument[str]):
    """Watches one attempt (implements `atp.protocol.spans.Instrument`). Made within the event loop.

    Of a model call it knows CrewAI's id for it.

    Args:
        recorder: Of the attempt.
    """

    def __init__(self, recorder: Recorder) -> None:
        super().__init__(recorder)
        self._own: Any = None
        self._tools: frozenset[str] = frozenset()

    def watch(self, own: Any, tools: frozenset[str]) -> None:
        """Say what is being watched.

        Args:
            own: The agent or crew whose span the root is.
            tools: Names of the binding's tools: calls of others CrewAI answers without the binding.
        """
        self._own, self._tools = own, tools

    def heard(self, source: Any, event: Any) -> None:
        """An event is sent; for `add_stream_sink`, in the turn's context. Raises nothing."""
        try:
            self._heard(source, event)
        except Exception as error:
            self.recorder.failed(f"event {event.type}", error)

    def refused(self, call: ModelCall[str], announced: AnnouncedCall) -> bool:
        """See `ThreadedInstrument.refused`; by the checks that CrewAI makes before it calls a tool."""
        if announced.name not in self._tools & call.offered:
            return True
        if not announced.arguments:
            return not call.streams  # of a stream it takes no text for no arguments
        try:
            arguments = json.loads(announced.arguments)
        except ValueError:
            return True
        return bool(arguments) and not isinstance(arguments, dict)

    def _heard(self, source: Any, event: Any) -> None:
        match event.type:
            case "llm_call_started":
                agents = _AGENTS.get()
                MODEL_CALL.set(ModelCall(self, event.call_id, agents[-1] if agents else None))
            case "llm_call_completed" | "llm_call_failed":
                self._call_ended(event)
            case "agent_execution_started":
                self._agent_started(event.agent.role)
            case "lite_agent_execution_started" if source is not self._own:
                self._agent_started(event.agent_info["role"])
            case "agent_execution_completed" | "agent_execution_error":
                self._agent_ended(event)
            case "lite_agent_execution_completed" | "lite_agent_execution_error":
                if source is not self._own:
                    self._agent_ended(event)
            case _:
                pass

    def _call_ended(self, event: Any) -> None:
        call = MODEL_CALL.get()
        # Of one call CrewAI may say twice that it failed.
        if isinstance(call, ModelCall) and call.asked == event.call_id:
            MODEL_CALL.set(None)
            self.call_ended(call, _error(event))

    def _agent_started(self, role: str) -> None:
        agents = _AGENTS.get()
        # A role may be a line of prose with spaces at its ends.
        _AGENTS.set((*agents, self.agent_started(role.strip(), agents[-1] if agents else None)))

    def _agent_ended(self, event: Any) -> None:
        *others, span = _AGENTS.get()
        _AGENTS.set(tuple(others))
        if span is not None:
            self.agent_ended(span, _error(event))


def _error(event: Any) -> Exception | None:
    said = getattr(event, "error", None)
    if said is None:
        return None
    raised = sys.exception()
    return raised if isinstance(raised, Exception) else CallFailed(str(said))


@lru_cache(maxsize=1)
def watched_model_class() -> Any:
    """Makes an `OpenAICompletion` of CrewAI whose requests are told and whose responses are copied, for
    whatever listens in the present context; with the same arguments behind `before`, which is called with
    each request of its synchronous client first of all, and ends the request by what it raises."""
    from crewai.llms.providers.openai.completion import OpenAICompletion
    from pydantic import PrivateAttr

    class WatchedCompletion(OpenAICompletion):  # type: ignore[misc]  # the SDK is not where types are checked
        _before: Callable[[Any], None] | None = PrivateAttr(default=None)

        def __init__(self, before: Callable[[Any], None], **chosen: Any) -> None:
            super().__init__(**chosen)
            self._before = before

        def release(self) -> None:
            """Close the connections of the synchronous client."""
            if self._client is not None:
                self._client.close()

        # The base calls them when it is made, for clients that may never be used, and again when one is
        # needed that is not there.
        def _build_sync_client(self) -> Any:
            if self._before is None:
                return None
            from openai import OpenAI

            return OpenAI(**self._get_client_params(), http_client=copying_client(self._before))

        def _build_async_client(self) -> Any:
            if self._before is None:
                return None
            from openai import AsyncOpenAI

            return AsyncOpenAI(**self._get_client_params(), http_client=copying_asynchronous_client())

    return WatchedCompletion

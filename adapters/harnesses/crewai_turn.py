"""What the adapter itself hears of CrewAI's events in one turn.

CrewAI's event bus hands events to its listeners in threads of its own, later. A sink of
`crewai.events.stream_context`, which CrewAI's own streaming is built on, gets each event where and when
it is sent, in the context of its turn.
"""

from __future__ import annotations

import json
from contextvars import ContextVar
from typing import Any

from adapters.harnesses.announced_calls import AnnouncedCalls

_DELEGATED: ContextVar[int] = ContextVar("atp_crewai_delegated", default=0)
"""How many agents below the one that the user speaks to are at work in this context."""


class TurnEvents:
    """One turn.

    Args:
        announced: Where the binding's tools find their call ids.
    """

    def __init__(self, announced: AnnouncedCalls) -> None:
        self._announced = announced
        self.forced = False
        """Whether the limit of iterations has fired, and the model was asked for an answer at once."""

    def heard(self, source: Any, event: Any) -> None:
        """An event is sent; for `add_stream_sink`."""
        match event.type:
            case "llm_call_started":
                if not _DELEGATED.get() and _asks_for_answer(event.messages):
                    self.forced = True
            case "llm_call_completed" if event.call_type.value == "tool_call":
                for call in event.response:
                    self._announce(call)
            case "agent_execution_started":
                _DELEGATED.set(_DELEGATED.get() + 1)
            case "agent_execution_completed" | "agent_execution_error":
                _DELEGATED.set(_DELEGATED.get() - 1)
            case _:
                pass

    def _announce(self, call: dict[str, Any]) -> None:
        try:
            arguments = json.loads(call["function"]["arguments"]) or {}
        except ValueError:
            return  # CrewAI cannot read them either, and makes no call
        self._announced.announce(call["function"]["name"], arguments, call["id"])


def _asks_for_answer(messages: Any) -> bool:
    from crewai.utilities.i18n import I18N_DEFAULT

    return bool(messages) and messages[-1].get("content") == I18N_DEFAULT.errors("force_final_answer")

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
        self._completed: list[Any] = []

    @property
    def model_calls(self) -> int:
        """Calls of the model that were answered, those of all agents."""
        return len(self._completed)

    @property
    def response_ids(self) -> tuple[str, ...] | None:
        """Of their responses; None where CrewAI does not know one."""
        ids = [event.response_id for event in self._completed]
        return None if None in ids else tuple(ids)

    @property
    def usage_is_whole(self) -> bool:
        """Whether each of them said what it used; CrewAI's own sum has nothing of those that did not."""
        return all((event.usage or {}).get("total_tokens") for event in self._completed)

    def heard(self, source: Any, event: Any) -> None:
        """An event is sent; for `add_stream_sink`."""
        match event.type:
            case "llm_call_started":
                if not _DELEGATED.get() and _asks_for_answer(event.messages):
                    self.forced = True
            case "llm_call_completed":
                self._completed.append(event)
                if event.call_type.value == "tool_call":
                    for call in event.response:
                        self._announce(call)
            case "agent_execution_started":
                _DELEGATED.set(_DELEGATED.get() + 1)
            case "agent_execution_completed" | "agent_execution_error":
                _DELEGATED.set(_DELEGATED.get() - 1)
            case _:
                pass

    def _announce(self, call: dict[str, Any]) -> None:
        text = call["function"]["arguments"]
        try:
            # No text means no arguments, where it is streamed.
            arguments = (json.loads(text) if text else None) or {}
        except ValueError:
            return  # CrewAI cannot read them either, and makes no call
        self._announced.announce(call["function"]["name"], arguments, call["id"])


def _asks_for_answer(messages: Any) -> bool:
    from crewai.utilities.i18n import I18N_DEFAULT

    return bool(messages) and messages[-1].get("content") == I18N_DEFAULT.errors("force_final_answer")

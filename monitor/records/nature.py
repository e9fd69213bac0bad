"""What a harness does by its nature, so that it is no difference of the records."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from atp.protocol.cards import HarnessCard, WireNames


@dataclass(frozen=True, slots=True)
class Nature:
    """What the comparison has to know of a harness; the fields of the same names are its card's."""

    owned_tools: Collection[str] = ()
    tool_names_on_wire: WireNames = WireNames()
    history: Literal["whole", "accepted", "free"] = "whole"
    calls_from_text: bool = False
    calls_by_code: bool = False
    """Whether its own code may call tools that no model has asked for; such calls have no call id."""

    @classmethod
    def of(cls, card: HarnessCard, tools_of_the_agent: Collection[str]) -> Nature:
        """The nature that a card tells.

        Args:
            card: The harness.
            tools_of_the_agent: Tools on the wire that are not the benchmark's. A user's own agent has
                some that no card lists: handoffs, sub-agents, tools of its own.
        """
        own_agent = card.factory is not None
        return cls(
            owned_tools=tools_of_the_agent if own_agent else card.owned_tools,
            tool_names_on_wire=card.tool_names_on_wire,
            history="free" if own_agent else card.history,
            calls_from_text=card.calls_from_text,
            calls_by_code=own_agent,
        )

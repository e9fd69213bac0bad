"""The customer for scripted models; the one that a model plays is in `simulated_user`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from atp.protocol.environment import User, UserStop, UserText, UserTurn
from atp.protocol.errors import BenchmarkError

STOP = "###STOP###"
"""What the official user says to end the conversation (`tau2/user/base.py`)."""

_USER_ID = re.compile(r"\b[a-z]+_[a-z]+_\d+\b")


class ScriptedUser(User):
    """Says who it is and that it wants help, hears one answer, and stops.

    Of the scenario it uses the customer's id alone. The rest tells the official user what to hold
    back, make up or insist on: said aloud, it would give the task away.

    Args:
        scenario: The official `user_scenario` of the task.

    Raises:
        BenchmarkError: The scenario does not say who the customer is.
    """

    def __init__(self, scenario: Mapping[str, Any]) -> None:
        found = _USER_ID.search(scenario["instructions"]["known_info"])
        if found is None:
            raise BenchmarkError("the scenario does not say who the customer is")
        self._line = f"Hello, my user id is {found[0]}. I need help with my bookings."

    async def open(self) -> UserTurn:
        """See `User.open`."""
        return UserText(text=self._line)

    async def reply(self, text: str) -> UserTurn:
        """See `User.reply`."""
        return UserStop(reason=STOP)

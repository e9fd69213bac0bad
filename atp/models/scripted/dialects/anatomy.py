"""Where things stand in a dialect's answers: what faults have to know to make answers wrong."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, Protocol

from atp.models.scripted.steps import Refusal

SERVER_ERROR: Mapping[str, Any] = {
    "message": "the server had an error while it answered",
    "code": "server_error",
    "param": None,
}
"""What an error within a stream says, in OpenAI's words."""


class Anatomy(Protocol):
    """What a fault asks of a dialect. `data` is what `event_data` finds: a whole answer, or one event."""

    end_mark: bool
    """Whether the last event of a stream says no more than that it ends."""
    calls_in_pieces: bool
    """Whether the arguments of a call come in pieces in a stream; else a call is one event."""
    before_arguments: bytes
    """What stands before the arguments of a call that comes whole."""

    def without_choices(self, data: dict[str, Any]) -> dict[str, Any] | None:
        """The same with an empty list of what the model says; None for an event that tells of an item."""

    def says_something(self, data: Mapping[str, Any]) -> bool:
        """Whether an event holds a piece of what the model says."""

    def halve_arguments(self, data: dict[str, Any]) -> bool:
        """Halve the piece of arguments that an event holds, in place; False where it holds none."""

    def taking_turns(self, chunks: Sequence[bytes]) -> Iterable[bytes]:
        """The events of a stream, those of parallel calls by turns, the later call first.

        Raises:
            Refusal: There are not two calls that come in pieces.
        """

    def error_event(self, number: int) -> bytes:
        """An event that is an error.

        Args:
            number: How many events are before it.
        """


def fault_not_expressible(message: str) -> Refusal:
    """The refusal of a fault that an answer cannot have."""
    return Refusal(400, "fault_not_expressible", message)


def later_first(by_call: Mapping[int, Sequence[bytes]]) -> Iterator[bytes]:
    """Events of parallel calls by turns, the later call first.

    Args:
        by_call: Position of a call -> its events.

    Raises:
        Refusal: There are fewer than two calls.
    """
    if len(by_call) < 2:
        raise fault_not_expressible(
            "mixed_deltas needs two tool calls that come in pieces, and the answer has fewer"
        )
    rounds = zip_longest(*(by_call[call] for call in sorted(by_call, reverse=True)))
    return iter([chunk for turn in rounds for chunk in turn if chunk is not None])

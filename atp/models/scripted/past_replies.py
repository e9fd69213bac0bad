"""Which of its own earlier replies a request carries back, and in what form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from atp.models.scripted.steps import Message, Step


@dataclass(frozen=True, slots=True)
class CarriedBack:
    """What a request makes of the replies before it."""

    held: tuple[str, ...]
    """Response ids of those it holds as replies of the model; those that said nothing among them."""
    pasted: tuple[str, ...]
    """Of those it tells of in words of a user or of the system instead."""


@dataclass(slots=True)
class _Reply:
    step: Step
    response_ids: list[str] = field(default_factory=list)


@dataclass(slots=True)
class PastReplies:
    """The replies of one session, in order. A request that is sent again gets the same reply, which
    stands for one under all of its ids."""

    _replies: dict[str, _Reply] = field(default_factory=dict)

    def add(self, request: str, response_id: str, step: Step) -> None:
        """A reply is given.

        Args:
            request: Digest of the request.
            response_id: The reply's id.
            step: What it says, before an idiom renders it.
        """
        self._replies.setdefault(request, _Reply(step)).response_ids.append(response_id)

    def within(self, messages: Sequence[Message]) -> CarriedBack:
        """Look for the replies in a request.

        A reply with tool calls is known by their ids, another by its text. Each message of the model
        stands for one reply: equal ones are held as often as they were given.

        Args:
            messages: Of the request, in the plain idiom.
        """
        spoken = [message for message in messages if message.role == "assistant"]
        words = [message.text for message in messages if message.role in {"user", "system"}]
        held: list[str] = []
        pasted: list[str] = []
        for reply in self._replies.values():
            step = reply.step
            message = next((message for message in spoken if _is_reply(message, step)), None)
            if message is not None:
                spoken.remove(message)
                held += reply.response_ids
            elif not step.tool_calls and not (step.text or "").strip():
                held += reply.response_ids
            elif any(_tells(text, step) for text in words):
                pasted += reply.response_ids
        return CarriedBack(tuple(held), tuple(pasted))


def _is_reply(message: Message, step: Step) -> bool:
    if step.tool_calls:
        return {call.id for call in step.tool_calls} <= {call.id for call in message.tool_calls}
    # White space at its ends may be gone, and replies that stand side by side be one message.
    return (step.text or "").strip() in message.text


def _tells(text: str, step: Step) -> bool:
    said = [call.id for call in step.tool_calls] or [(step.text or "").strip()]
    return any(each in text for each in said)

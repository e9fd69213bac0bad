"""The policy of `scripted/replay:RUN`: repeats a stored run, and stops where the request is another one.

A reply is found by what the request holds, not by counting requests: the turn whose request was the
same gets its reply again, in whatever order requests come. Images and files are not compared, nor
are sampling parameters and the model's name.
"""

from __future__ import annotations

import os.path
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeVar

from atp.models.scripted.recording import Recording, comparable, comparable_tool
from atp.models.scripted.steps import Message, Refusal, RequestView, Step, StepCall, ToolOffer, wire_arguments
from atp.protocol.errors import InvalidInput

DIVERGED = "replay_diverged"
"""Code of the refusal of a request that the stored run did not make."""

_SHOWN = 60
"""Characters shown of each of two texts, from a little before their first difference on."""
_BEFORE = 12

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Turn:
    number: int
    """From 1."""
    messages: tuple[Message, ...]
    tools: tuple[ToolOffer, ...]
    step: Step


class Replay:
    """Repeats a recording. Replies are repeated, and requests compared, as the stored harness heard and
    said them: no idiom stands between.

    Args:
        recording: Of the run.

    Raises:
        InvalidInput: The run asked the same more than once and got different replies.
    """

    verbatim: ClassVar[bool] = True

    def __init__(self, recording: Recording) -> None:
        messages = [comparable(message) for message in recording.messages]
        tools = [tuple(comparable_tool(tool) for tool in offered) for offered in recording.tools]
        self._run_id = recording.run_id
        self._turns = [
            _Turn(number, tuple(messages[index] for index in turn.messages), tools[turn.tools], turn.step)
            for number, turn in enumerate(recording.turns, 1)
        ]
        self._refuse_ambiguity()

    def step(self, view: RequestView) -> Step:
        """See `Policy.step`.

        Raises:
            Refusal: No turn of the run has this request; says where the nearest one differs.
        """
        came = tuple(comparable(message) for message in view.messages)
        offered = tuple(comparable_tool(tool) for tool in view.tools)
        for turn in self._turns:
            if turn.messages == came and turn.tools == offered:
                return turn.step
        nearest = max(self._turns, key=lambda turn: _likeness(turn, came))
        raise Refusal(
            400,
            DIVERGED,
            f"replay of {self._run_id} ends at turn {nearest.number}: {_difference(nearest, came, offered)}",
        )

    def _refuse_ambiguity(self) -> None:
        for position, turn in enumerate(self._turns):
            for later in self._turns[position + 1 :]:
                same = turn.messages == later.messages and turn.tools == later.tools
                if same and turn.step != later.step:
                    raise InvalidInput(
                        f"run {self._run_id} cannot be replayed: its requests of turns {turn.number} and "
                        f"{later.number} are the same and their replies differ"
                    )


def _likeness(turn: _Turn, came: Sequence[Message]) -> tuple[int, int, int]:
    # The longest common beginning; of those the request that is as long; of those the first.
    return _common(turn.messages, came), -abs(len(turn.messages) - len(came)), -turn.number


def _common(stored: Sequence[T], came: Sequence[T]) -> int:
    for index, (there, here) in enumerate(zip(stored, came, strict=False)):
        if there != here:
            return index
    return min(len(stored), len(came))


def _difference(turn: _Turn, came: Sequence[Message], offered: Sequence[ToolOffer]) -> str:
    index = _common(turn.messages, came)
    if index < min(len(turn.messages), len(came)):
        return _two_messages(index + 1, turn.messages[index], came[index])
    if index < len(came):
        said = comparable(Message("assistant", turn.step.text or "", turn.step.tool_calls))
        if came[index].role == "assistant" and came[index] != said:
            return _two_messages(index + 1, said, came[index])
        index = min(index + (came[index] == said), len(came) - 1)
        return (
            f"the run asked no more, and message {index + 1} ({came[index].role}) came besides: "
            f"{_start(came[index].text)}"
        )
    if index < len(turn.messages):
        missing = turn.messages[index]
        return f"message {index + 1} ({missing.role}) did not come; stored: {_start(missing.text)}"
    return _two_lists_of_tools(turn.tools, offered)


def _two_messages(number: int, stored: Message, came: Message) -> str:
    where = f"message {number} ({stored.role})"
    if stored.role != came.role:
        return f"{where} came as a message of role {came.role}: {_start(came.text)}"
    if stored.role == "tool":
        where = f"message {number} (result of call {stored.tool_call_id})"
        if stored.tool_call_id != came.tool_call_id:
            return f"{where} came for call {came.tool_call_id}"
    if stored.text != came.text:
        return f"{where} differs {_two_texts(stored.text, came.text)}"
    return f"{where}: {_two_lists_of_calls(stored.tool_calls, came.tool_calls)}"


def _two_lists_of_calls(stored: Sequence[StepCall], came: Sequence[StepCall]) -> str:
    for there, here in zip(stored, came, strict=False):
        if (there.id, there.name) != (here.id, here.name):
            return f"call {there.id} ({there.name}) came as {here.id} ({here.name})"
        if there.arguments != here.arguments:
            return f"arguments of call {there.id} differ {_two_texts(there.arguments, here.arguments)}"
    return f"{len(stored)} tool calls were stored, {len(came)} came"


def _two_lists_of_tools(stored: Sequence[ToolOffer], came: Sequence[ToolOffer]) -> str:
    there, here = {tool.name: tool for tool in stored}, {tool.name: tool for tool in came}
    if gone := there.keys() - here.keys():
        return f"tool list: {_names(gone)} not offered any more"
    if new := here.keys() - there.keys():
        return f"tool list: {_names(new)} not offered in the stored run"
    for name, tool in there.items():
        if tool.description != here[name].description:
            return (
                f"tool list: description of {name!r} differs "
                f"{_two_texts(tool.description, here[name].description)}"
            )
        if tool.parameters != here[name].parameters:
            texts = wire_arguments(tool.parameters), wire_arguments(here[name].parameters)
            return f"tool list: schema of {name!r} differs {_two_texts(*texts)}"
    return f"tool list: stored in the order {', '.join(there)}, came in the order {', '.join(here)}"


def _names(names: set[str]) -> str:
    return f"{', '.join(map(repr, sorted(names)))} {'is' if len(names) == 1 else 'are'}"


def _two_texts(stored: str, came: str) -> str:
    position = len(os.path.commonprefix([stored, came]))
    start = max(position - _BEFORE, 0)
    return f"at character {position + 1}: stored {_cut(stored, start)}, came {_cut(came, start)}"


def _start(text: str) -> str:
    return _cut(text, 0)


def _cut(text: str, start: int) -> str:
    shown = text[start : start + _SHOWN]
    return f"{'…' if start else ''}{shown!r}{'…' if start + _SHOWN < len(text) else ''}"

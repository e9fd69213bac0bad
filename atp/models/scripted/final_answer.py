"""The idiom of a harness that takes its answer by a tool, and whose memory is text: smolagents.

What it asks a model for is tool calls, `final_answer` for the answer among them. What was before, it
tells as text (`ActionStep.to_messages` in `smolagents/memory.py`, version 1.26.0)::

    assistant   [what was said with the calls]
                Calling tools:
                [{'id': …, 'type': 'function', 'function': {'name': …, 'arguments': …}}, …]
    user        Observation:
                <results of all the calls>
                [Error:
                <what was wrong with a later reply, of which only the text is shown>
                Now let's retry: …]
                [New task:
                <the user's next line>]

Messages of one role that follow each other are joined by a newline.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from atp.models.scripted.steps import (
    FinishReason,
    Message,
    RequestView,
    Step,
    StepCall,
    wire_arguments,
)

FINAL_ANSWER = "final_answer"

_CALLS = "Calling tools:\n"
_OBSERVATION = "Observation:"
_TASK = "New task:\n"
_ERROR = re.compile(
    r"(?:^|\n)(?:Call id: [^\n]*\n)?Error:\n(?P<what>.*?)\nNow let's retry: take care not to repeat "
    r"previous errors! If you have retried several times, try a completely different approach\.(?:\n|$)",
    re.DOTALL,
)


class FinalAnswer:
    """An answer is said by calling `final_answer` with `{"answer": text}`, and heard back as text."""

    def hear(self, view: RequestView) -> RequestView:
        """The request in the plain form: calls and results as such, answers as text.

        The results of parallel calls cannot be told apart: each is given the text of all. A reply
        whose calls the harness refused is an empty one with a result of its own.
        """
        return replace(
            view,
            messages=tuple(_heard(view.messages)),
            tools=tuple(tool for tool in view.tools if tool.name != FINAL_ANSWER),
        )

    def say(self, step: Step, view: RequestView) -> Step:
        """Text alone as a call of `final_answer`, where the request offers that."""
        if step.text is None or step.tool_calls or all(tool.name != FINAL_ANSWER for tool in view.tools):
            return step
        replies = sum(message.role == "assistant" for message in self.hear(view).messages)
        call = StepCall(
            f"call_{FINAL_ANSWER}_{replies + 1}", FINAL_ANSWER, wire_arguments({"answer": step.text})
        )
        finish = None if step.finish_reason is FinishReason.STOP else step.finish_reason
        return replace(step, text=None, tool_calls=(call,), finish_reason=finish)

    def plain(self, step: Step) -> Step:
        """Calls of `final_answer` as text."""
        answers = [_answer(_read(call.arguments)) for call in step.tool_calls if call.name == FINAL_ANSWER]
        if not answers:
            return step
        others = tuple(call for call in step.tool_calls if call.name != FINAL_ANSWER)
        return replace(step, text="\n".join([*filter(None, [step.text]), *answers]), tool_calls=others)


def _heard(messages: Sequence[Message]) -> Iterator[Message]:
    open_calls: tuple[StepCall, ...] = ()
    spoke = False
    unseen = 0
    for message in messages:
        if message.role == "assistant":
            reply = _reply(message.text)
            yield reply
            open_calls, spoke = reply.tool_calls, not reply.tool_calls
        elif message.role == "user":
            position = 0
            for error in (*_ERROR.finditer(message.text), None):
                said = message.text[position : error.start() if error else None]
                yield from _results(said, open_calls)
                open_calls = ()
                if error is None:
                    break
                position = error.end()
                # An error that follows a reply's text belongs to that; else the reply was not shown.
                if not (spoke and error.start() == 0):
                    unseen += 1
                    yield Message("assistant")
                    yield Message("tool", error["what"], tool_call_id=f"unseen_{unseen}")
                else:
                    yield Message("user", error["what"])
            spoke = False
        else:
            yield message


def _reply(text: str) -> Message:
    said, found, written = text.rpartition(_CALLS)
    calls = _calls(written) if found else None
    if calls is None:
        return Message("assistant", text)
    said = said.removesuffix("\n")
    answers = [arguments for call, arguments in calls if call.name == FINAL_ANSWER]
    if answers:
        said = "\n".join([*filter(None, [said]), *map(_answer, answers)])
    others = tuple(call for call, _ in calls if call.name != FINAL_ANSWER)
    return Message("assistant", said, others)


def _calls(written: str) -> list[tuple[StepCall, object]] | None:
    """Calls and their arguments as they were read; None for what is no list of calls."""
    try:
        listed = ast.literal_eval(written)
        return [
            (
                StepCall(call["id"], call["function"]["name"], _arguments(call["function"]["arguments"])),
                call["function"]["arguments"],
            )
            for call in listed
        ]
    except (ValueError, SyntaxError, TypeError, KeyError):
        return None


def _arguments(value: object) -> str:
    return value if isinstance(value, str) else wire_arguments(value)  # type: ignore[arg-type]  # a literal


def _read(arguments: str) -> object:
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments


def _answer(arguments: object) -> str:
    answer = arguments.get("answer", "") if isinstance(arguments, dict) else arguments
    return answer if isinstance(answer, str) else _arguments(answer)


def _results(text: str, calls: tuple[StepCall, ...]) -> Iterator[Message]:
    observed, _, task = text.rpartition(_TASK) if _TASK in text else (text, "", "")
    observed = observed.removesuffix("\n").removeprefix("\n")
    if observed == _OBSERVATION or observed.startswith(f"{_OBSERVATION}\n"):
        for call in calls:
            # The line end before an empty result has gone with those at the end.
            result = observed.removeprefix(_OBSERVATION).removeprefix("\n")
            yield Message("tool", result, tool_call_id=call.id)
    elif observed:
        yield Message("user", observed)
    if task:
        yield Message("user", task)

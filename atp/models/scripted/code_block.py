"""The idiom of a harness whose model calls tools by writing Python, in a block of Markdown.

Tools stand as signatures in the system prompt, one a line that begins with `def name(`. Calls are said
after the text, and what they print is told by the user::

    assistant   [what was said with the calls]
                ```python
                print(get_weather(city='Paris'))  # 'call_1'
                ```
    user        Observation:
                <what was printed>

The comment is the call's id, by which the endpoint knows its reply again. An answer is text without a block.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from keyword import iskeyword
from typing import Any
from unicodedata import is_normalized

from atp.models.scripted.steps import (
    FinishReason,
    Message,
    Refusal,
    RequestView,
    Step,
    StepCall,
    ToolOffer,
    wire_arguments,
)
from atp.protocol.json_text import decode

_OPENING = "```python\n"
_CLOSING = "\n```"
_OBSERVATION = "Observation:\n"
_OFFERED = re.compile(r"^def (\w+)\(", re.MULTILINE)
_ID = "  # "


class CodeBlock:
    """Calls are a block of Python, and their results what it printed."""

    def hear(self, view: RequestView) -> RequestView:
        """The request in the plain form: calls and results as such, tools as offers without a schema.

        The results of parallel calls cannot be told apart: each is given the text of all.
        """
        offered = [
            ToolOffer(name)
            for message in view.messages
            if message.role == "system"
            for name in _OFFERED.findall(message.text)
        ]
        return replace(view, messages=tuple(_heard(view.messages)), tools=(*view.tools, *offered))

    def say(self, step: Step, view: RequestView) -> Step:
        """Calls as a block behind the text.

        Raises:
            Refusal: A call has no form in Python.
        """
        if not step.tool_calls:
            return step
        block = _OPENING + "\n".join(map(_line, step.tool_calls)) + _CLOSING
        finish = None if step.finish_reason is FinishReason.TOOL_CALLS else step.finish_reason
        said = "\n".join([*filter(None, [step.text]), block])
        return replace(step, text=said, tool_calls=(), finish_reason=finish)

    def plain(self, step: Step) -> Step:
        """A block as calls."""
        said, calls = _read(step.text or "")
        return replace(step, text=said or None, tool_calls=(*step.tool_calls, *calls)) if calls else step


def _heard(messages: Sequence[Message]) -> Iterator[Message]:
    open_calls: tuple[StepCall, ...] = ()
    for message in messages:
        if message.role == "assistant":
            said, calls = _read(message.text)
            yield replace(message, text=said, tool_calls=(*message.tool_calls, *calls))
            open_calls = calls
        elif message.role == "user" and open_calls and message.text.startswith(_OBSERVATION):
            printed = message.text.removeprefix(_OBSERVATION)
            yield from (Message("tool", printed, tool_call_id=call.id) for call in open_calls)
            open_calls = ()
        else:
            yield message


def _line(call: StepCall) -> str:
    if not _is_name(call.name):
        raise _not_expressible(f"{call.name!r} is no name of a function")
    try:
        arguments = decode(call.arguments)
    except ValueError:
        arguments = None
    if not isinstance(arguments, dict):
        raise _not_expressible(f"the arguments of {call.name} are no JSON object")
    named = {name: value for name, value in arguments.items() if _is_name(name)}
    others = {name: value for name, value in arguments.items() if name not in named}
    written = [f"{name}={value!r}" for name, value in named.items()] + ([f"**{others!r}"] if others else [])
    return f"print({call.name}({', '.join(written)})){_ID}{call.id!r}"


def _is_name(text: str) -> bool:
    """Whether Python takes a text as a name, and as this one: it reads names in their normal form."""
    return text.isidentifier() and not iskeyword(text) and is_normalized("NFKC", text)


def _not_expressible(what: str) -> Refusal:
    return Refusal(400, "not_expressible", f"the idiom code_block has no form for a call: {what}")


def _read(text: str) -> tuple[str, tuple[StepCall, ...]]:
    """What was said before the last block, and the calls in that; of what is no such block all is text."""
    said, opening, code = text.rpartition(_OPENING)
    if not opening or not code.endswith(_CLOSING):
        return text, ()
    calls = [_call(line) for line in code.removesuffix(_CLOSING).split("\n")]
    known = tuple(call for call in calls if call is not None)
    return (said.removesuffix("\n"), known) if len(known) == len(calls) else (text, ())


def _call(line: str) -> StepCall | None:
    try:
        printing = ast.parse(line, mode="eval").body
        call_id = line.encode()[printing.end_col_offset :].decode().removeprefix(_ID)
        match printing:
            case ast.Call(
                func=ast.Name(id="print"), args=[ast.Call(func=ast.Name(id=name), args=[], keywords=keywords)]
            ):
                arguments: dict[str, Any] = {}
                for keyword in keywords:
                    value = ast.literal_eval(keyword.value)
                    arguments |= value if keyword.arg is None else {keyword.arg: value}
                return StepCall(ast.literal_eval(call_id), name, wire_arguments(arguments))
    except (ValueError, SyntaxError, TypeError):
        return None  # a block of another's is text
    return None

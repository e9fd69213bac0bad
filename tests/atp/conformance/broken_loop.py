"""The thin loop with one thing wrong with it: what each check is there to find.

`-o harness.breaks=NAME` says what is wrong. It runs in the test's own process.
"""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from thinloop.card import CARD
from thinloop.instrument import ThinLoopInstrument
from thinloop.runner import ThinLoopConversation

from atp.protocol.binding import AgentBinding
from atp.protocol.errors import ToolFailed
from atp.protocol.runner import Conversation, ConversationRunner, Reply, RunContext
from atp.protocol.spans import SpanHandle
from atp.protocol.task import Part, TextPart

BROKEN = CARD.model_copy(
    update={
        "name": "broken-loop",
        "runner": f"{__name__}:BrokenRunner",
        "instrument": f"{__name__}:BrokenInstrument",
        "options": {"breaks": "what is wrong"},
    }
)

SAID_TO_STREAM = BROKEN.model_copy(
    update={"options": {**BROKEN.options, "stream": "said to be there, and passed over"}}
)

Request = dict[str, Any]


class BrokenRunner(ConversationRunner):
    """Opens conversations that go wrong as asked."""

    async def open(self, binding: AgentBinding, context: RunContext) -> Conversation:
        """See `ConversationRunner.open`."""
        breaks = str(context.options.get("breaks", ""))
        if isinstance(context.instrument, BrokenInstrument):
            context.instrument.breaks = breaks
        if breaks == "a call of its own":
            await binding.call("echo", {"text": "hello"})
        return BrokenConversation(binding, context, breaks)


class BrokenConversation(ThinLoopConversation):
    """A conversation of the thin loop, with one thing wrong."""

    lines_of_all: ClassVar[list[str]] = []

    def __init__(self, binding: AgentBinding, context: RunContext, breaks: str) -> None:
        super().__init__(binding, context)
        self._breaks = breaks
        self._client = BrokenClient(self._client, breaks)  # type: ignore[assignment]  # stands in for it
        if breaks == "stops early":
            self._calls_made = 1

    async def send(self, parts: Sequence[Part]) -> Reply:
        """See `Conversation.send`."""
        text = "".join(part.text for part in parts if isinstance(part, TextPart))
        if self._breaks == "words added to the task":
            text = f"Your task: {text}"
        if self._breaks == "words of others":
            self.lines_of_all.append(text)
            text = "\n".join(self.lines_of_all)
        reply = await super().send((TextPart(text=text),))
        if self._breaks == "another answer" and reply.text:
            return reply.model_copy(update={"text": reply.text.upper()})
        return reply

    async def _call(self, call: Mapping[str, Any]) -> Request:
        call = copy.deepcopy(dict(call))
        function, call_id = call["function"], call["id"]
        content: str | None = None
        if self._breaks == "a lost call" and call_id == "call_quick":
            content = "quick"
        elif self._breaks == "a call without id":
            content = (await self._binding.call(function["name"], json.loads(function["arguments"]))).text
        elif self._breaks == "defaults filled in" and function["name"] == "book":
            arguments = {"deposit": 10.5, "until": None, **json.loads(function["arguments"])}
            content = (await self._binding.call("book", arguments, call_id)).text
        elif self._breaks == "another tool" and function["name"] == "no_such_tool":
            content = (await self._binding.call("echo", {"text": "no_such_tool"}, call_id)).text
        if content is not None:
            return {"role": "tool", "tool_call_id": call_id, "content": content}
        try:
            message = await super()._call(call)
        except ToolFailed:
            if self._breaks != "a failure swallowed":
                raise
            return {"role": "tool", "tool_call_id": call_id, "content": "done"}
        except asyncio.CancelledError:
            if self._breaks == "goes on when cancelled":
                await self._client.complete(
                    {"model": self._context.model.model, "messages": self._messages[:-1] or self._messages}
                )
            raise
        return _BROKEN_RESULTS.get(self._breaks, _same)(message)


class BrokenClient:
    """A client whose requests are not those of the loop."""

    def __init__(self, client: Any, breaks: str) -> None:
        self._client = client
        self._breaks = breaks

    async def complete(self, request: Request) -> Any:
        """One model call."""
        return await self._client.complete(_BROKEN_REQUESTS.get(self._breaks, _same)(copy.deepcopy(request)))

    async def close(self) -> None:
        """Close the connection."""
        await self._client.close()


class BrokenInstrument(ThinLoopInstrument):
    """An instrument with one thing wrong."""

    breaks = ""

    def answered(self, span: SpanHandle, reply: Mapping[str, Any]) -> None:
        """The model has answered."""
        told: dict[str, Any] = copy.deepcopy(dict(reply))
        match self.breaks:
            case "altered usage":
                told["usage"]["prompt_tokens"] += 1
            case "an untold answer":
                told["choices"][0]["message"] = {"role": "assistant", "content": "…"}
            case "a nameless reply":
                told["id"] = "chatcmpl-none"
        super().answered(span, told)


def _same(value: Request) -> Request:
    return value


def _doubled_prompt(request: Request) -> Request:
    request["messages"] = [*request["messages"][:1], *request["messages"]]
    return request


def _dropped_key(request: Request) -> Request:
    for tool in request["tools"]:
        tool["function"]["parameters"].pop("additionalProperties", None)
    return request


def _narrowed(request: Request) -> Request:
    for tool in request["tools"]:
        parameters = tool["function"]["parameters"]
        parameters["required"] = list(parameters["properties"])
    return request


def _pasted(request: Request) -> Request:
    first, *rest = request["messages"]
    if len(rest) > 1:
        text = "\n".join(f"{message['role']}: {message.get('content')}" for message in rest)
        # The replies stay, so that the script goes on.
        replies = [message for message in rest if message["role"] == "assistant"]
        results = [message for message in rest if message["role"] == "tool"]
        request["messages"] = [first, {"role": "user", "content": text}, *replies, *results]
    return request


def _warm(request: Request) -> Request:
    return {"temperature": 0.0, **request}


def _clipped(message: Request) -> Request:
    return {**message, "content": message["content"][:1000]}


def _swallowed(message: Request) -> Request:
    return {**message, "content": message["content"].replace("the cellar is locked (code 7)", "done")}


_BROKEN_REQUESTS: Mapping[str, Callable[[Request], Request]] = {
    "a doubled prompt": _doubled_prompt,
    "a dropped schema key": _dropped_key,
    "a narrowed schema": _narrowed,
    "a pasted transcript": _pasted,
    "a temperature of its own": _warm,
}
_BROKEN_RESULTS: Mapping[str, Callable[[Request], Request]] = {
    "a clipped result": _clipped,
    "a failure swallowed": _swallowed,
}

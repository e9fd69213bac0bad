"""The loop: ask the model, call its tools, until it only speaks."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import JsonValue

from atp.protocol.binding import AgentBinding
from atp.protocol.runner import Conversation, ConversationRunner, Reply, RunContext
from atp.protocol.spans import SpanHandle
from atp.protocol.status import StopReason
from atp.protocol.task import Part, TextPart
from atp.protocol.trace import Usage
from thinloop.chat_client import ChatClient, ChatHttpError
from thinloop.code_calls import OBSERVATION, signatures, written_calls
from thinloop.instrument import ThinLoopInstrument
from thinloop.misbehaviour import misbehave


class ThinLoopRunner(ConversationRunner):
    """Opens a conversation with the binding's tools."""

    async def open(self, binding: AgentBinding, context: RunContext) -> Conversation:
        """See `ConversationRunner.open`."""
        await misbehave(context.options, context.recorder)
        return ThinLoopConversation(binding, context)


class ThinLoopConversation:
    """The messages so far and the connection to the model."""

    def __init__(self, binding: AgentBinding, context: RunContext) -> None:
        self._binding = binding
        self._context = context
        self._client = ChatClient(
            context.model.base_url, context.model.api_key.get_secret_value(), context.limits.model_timeout
        )
        self._instrument = context.instrument if isinstance(context.instrument, ThinLoopInstrument) else None
        self._prefix = str(context.options.get("tool_prefix", ""))
        self._hands_on_ids = context.options.get("call_ids") != "none"
        self._by_code = context.options.get("calls") == "code"
        self._calls_made = 0
        self._calls_read = 0
        self._messages: list[dict[str, Any]] = []
        offered = signatures(binding.tools) if self._by_code else None
        prompts = [prompt for prompt in (binding.system_prompt, offered) if prompt is not None]
        if prompts:
            self._messages.append({"role": "system", "content": "\n\n".join(prompts)})

    async def send(self, parts: Sequence[Part]) -> Reply:
        """See `Conversation.send`."""
        text = "\n\n".join(part.text for part in parts if isinstance(part, TextPart))
        self._messages.append({"role": "user", "content": text})
        replies: list[dict[str, Any]] = []
        while True:
            limit = self._context.limits.max_turns
            if limit is not None and self._calls_made >= limit:
                return self._reply(replies, None, StopReason.MAX_TURNS)
            replies.append(await self._ask())
            message = replies[-1]["choices"][0]["message"]
            self._messages.append(message)
            results = await self._results(message)
            if not results:
                return self._reply(replies, message.get("content"), StopReason.ANSWERED)
            self._messages += results

    async def close(self) -> None:
        """See `Conversation.close`."""
        await self._client.close()

    async def _ask(self) -> dict[str, Any]:
        request: dict[str, Any] = {"model": self._context.model.model, "messages": self._messages}
        if self._binding.tools and not self._by_code:
            request["tools"] = [
                {
                    "type": "function",
                    "function": {
                        "name": self._prefix + tool.name,
                        "description": tool.description,
                        "parameters": tool.parameters,
                    },
                }
                for tool in self._binding.tools
            ]
        sampling = self._context.sampling
        if sampling.temperature is not None:
            request["temperature"] = sampling.temperature
        if sampling.max_output_tokens is not None:
            request["max_completion_tokens"] = sampling.max_output_tokens
        span = await self._instrument.asked(request) if self._instrument else None
        try:
            reply = await self._tried(request, span)
        except BaseException as error:
            if self._instrument and span:
                # A request that has no UTF-8 form is a ValueError too, and no reply at all.
                unreadable = isinstance(error, ValueError) and not isinstance(error, UnicodeEncodeError)
                self._instrument.failed(span, error, unreadable=unreadable)
            raise
        self._calls_made += 1
        if self._instrument and span:
            if self._by_code:
                text = reply["choices"][0]["message"].get("content") or ""
                self._instrument.wrote(span, [name for name, _ in written_calls(text)])
            self._instrument.answered(span, reply)
        return reply

    async def _tried(self, request: dict[str, Any], span: SpanHandle | None) -> dict[str, Any]:
        most = int(self._context.options.get("retries", 0))
        for failed in range(most + 1):
            if self._instrument and span:
                self._instrument.tried(span, failed)
            try:
                return await self._client.complete(request)
            except ChatHttpError as error:
                if error.status_code < 500 or failed == most:
                    raise
                if self._instrument and span:
                    self._instrument.refused(span, error.status_code)
        raise AssertionError("the last try returns or raises")

    async def _results(self, message: Mapping[str, Any]) -> list[dict[str, Any]]:
        """What the calls of a reply come to, as messages; nothing where it makes none."""
        if not self._by_code:
            return [await self._call(call) for call in message.get("tool_calls") or ()]
        printed: list[str] = []
        for name, arguments in written_calls(message.get("content") or ""):
            self._calls_read += 1
            result = await self._binding.call(name, arguments, f"read-{self._calls_read}")
            printed.append(result.text)
        return [{"role": "user", "content": OBSERVATION + "\n".join(printed)}] if printed else []

    async def _call(self, call: Mapping[str, Any]) -> dict[str, Any]:
        text = call["function"]["arguments"]
        try:
            arguments: JsonValue = json.loads(text)
        except ValueError:
            arguments = text  # for the binding to refuse
        name = call["function"]["name"].removeprefix(self._prefix)
        call_id = call["id"] if self._hands_on_ids else None
        result = await self._binding.call(name, arguments, call_id)
        return {"role": "tool", "tool_call_id": call["id"], "content": result.text}

    def _reply(self, replies: Sequence[Mapping[str, Any]], text: str | None, stop: StopReason) -> Reply:
        wanted = self._context.options.get("answer_characters")
        return Reply(
            text=text if wanted is None else "x" * int(wanted),
            stop_reason=stop,
            usage=Usage.total(_usage(reply.get("usage") or {}) for reply in replies),
            model_calls=len(replies),
            response_ids=tuple(reply["id"] for reply in replies),
        )


def _usage(usage: Mapping[str, Any]) -> Usage:
    return Usage.said(
        input_tokens=usage.get("prompt_tokens"),
        output_tokens=usage.get("completion_tokens"),
        cache_read_tokens=(usage.get("prompt_tokens_details") or {}).get("cached_tokens"),
        reasoning_tokens=(usage.get("completion_tokens_details") or {}).get("reasoning_tokens"),
    )

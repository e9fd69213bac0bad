"""OpenAI responses, streamed and not.

Shapes follow OpenAI's API reference (`/v1/responses`), as the types of the `openai` package give
them. Nothing is kept between requests, so a request has to hold its whole conversation. Reasoning
goes out as the summary of a reasoning item, which is where OpenAI's own models put what they show
of it. `tools` of a reply is empty: no client reads its own request from there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from atp.models.scripted.dialects.anatomy import Anatomy
from atp.models.scripted.dialects.bodies import JSON, SSE, bad, bearer_key, details, joined_text
from atp.models.scripted.dialects.dialect import Rendered, Reply
from atp.models.scripted.dialects.openai_bodies import ROLES, error_answer, request_object, totals
from atp.models.scripted.dialects.openai_responses_anatomy import OpenAIResponsesAnatomy
from atp.models.scripted.dialects.openai_responses_events import events
from atp.models.scripted.steps import FinishReason, Message, Refusal, RequestView, Step, StepCall, ToolOffer
from atp.protocol.trace import Usage

_REMEMBERED = ("previous_response_id", "conversation", "prompt")
_TEXT = frozenset({"input_text", "output_text", "text"})
_INCOMPLETE: Mapping[FinishReason, str] = {
    FinishReason.LENGTH: "max_output_tokens",
    FinishReason.CONTENT_FILTER: "content_filter",
}
"""Finish reason -> `incomplete_details.reason`."""


class OpenAIResponses:
    """The `responses` route."""

    id_prefix = "resp_"
    request_id_header = "x-request-id"
    required_headers: tuple[str, ...] = ()
    anatomy: Anatomy = OpenAIResponsesAnatomy()

    def key(self, headers: Mapping[str, str]) -> str:
        """See `WireDialect.key`."""
        return bearer_key(headers)

    def parse(self, body: bytes, path: str) -> RequestView:
        """See `WireDialect.parse`."""
        data, model = request_object(body)
        for key in _REMEMBERED:
            if data.get(key) is not None:
                raise bad(f"{key}: a scripted model keeps nothing; send the whole conversation as input")
        if data.get("background") is True:
            raise bad("background: not served")
        instructions = data.get("instructions")
        if instructions is not None and not isinstance(instructions, str):
            raise bad("instructions: not a string")
        system = (Message("system", instructions),) if instructions is not None else ()
        return RequestView(
            model=model,
            messages=(*system, *_messages(data.get("input"))),
            tools=() if data.get("tool_choice") == "none" else tuple(_tools(data.get("tools"))),
            stream=data.get("stream") is True,
            stream_usage=True,
        )

    def render(self, reply: Reply, view: RequestView) -> Rendered:
        """See `WireDialect.render`.

        Raises:
            Refusal: The step's finish reason has no form here.
        """
        response = _response(reply)
        if view.stream:
            return Rendered(200, SSE, tuple(events(response)))
        return Rendered(200, JSON, (orjson.dumps(response),))

    def error(self, status: int, code: str, message: str) -> Rendered:
        """See `WireDialect.error`."""
        return error_answer(status, code, message)


def _messages(raw: object) -> Iterator[Message]:
    """Items that stand side by side and are the model's are one reply."""
    if isinstance(raw, str):
        yield Message("user", raw)
        return
    if not isinstance(raw, list) or not raw:
        raise bad("input: a string or a non-empty array is required")
    texts: list[str] = []
    calls: list[StepCall] = []
    replied = False
    for index, item in enumerate(raw):
        where = f"input[{index}]"
        if not isinstance(item, dict):
            raise bad(f"{where}: not an object")
        message = _message(item, where)
        if message.role == "assistant":
            replied = True
            texts.append(message.text)
            calls.extend(message.tool_calls)
            continue
        if replied:
            yield Message("assistant", "".join(texts), tuple(calls))
            texts, calls, replied = [], [], False
        yield message
    if replied:
        yield Message("assistant", "".join(texts), tuple(calls))


def _message(item: dict[str, Any], where: str) -> Message:
    match item.get("type", "message"):
        case "message":
            named = item.get("role")
            role = ROLES.get(named) if isinstance(named, str) else None
            if role is None:
                raise bad(f"{where}.role: {named!r} is none of {', '.join(ROLES)}")
            return Message(role, joined_text(item.get("content"), f"{where}.content", _TEXT))
        case "function_call":
            call = StepCall(*(_string(item, key, where) for key in ("call_id", "name", "arguments")))
            return Message("assistant", tool_calls=(call,))
        case "function_call_output":
            return Message(
                role="tool",
                text=joined_text(item.get("output"), f"{where}.output", _TEXT),
                tool_call_id=_string(item, "call_id", where),
            )
        case "reasoning":
            return Message("assistant")
        case kind:
            raise bad(f"{where}.type: items of type {kind!r} are not served")


def _string(item: dict[str, Any], key: str, where: str) -> str:
    value = item.get(key)
    if not isinstance(value, str):
        raise bad(f"{where}.{key}: not a string")
    return value


def _tools(raw: object) -> Iterator[ToolOffer]:
    if raw is None:
        return
    if not isinstance(raw, list):
        raise bad("tools: not an array")
    for index, item in enumerate(raw):
        if not isinstance(item, dict) or item.get("type") != "function":
            raise bad(f"tools[{index}]: not a function; others are not served")
        parameters = item.get("parameters") or {}
        if not isinstance(parameters, dict):
            raise bad(f"tools[{index}].parameters: not an object")
        description = item.get("description") or ""
        if not isinstance(description, str):
            raise bad(f"tools[{index}].description: not a string")
        yield ToolOffer(_string(item, "name", f"tools[{index}]"), description, parameters)


def _response(reply: Reply) -> dict[str, Any]:
    step = reply.step
    incomplete = _INCOMPLETE.get(step.finish)
    if incomplete is None and (step.finish is FinishReason.TOOL_CALLS) is not bool(step.tool_calls):
        raise Refusal(
            400,
            "not_expressible",
            f"the responses dialect has no finish reason {step.finish.value!r} for a reply "
            f"{'with' if step.tool_calls else 'without'} tool calls",
        )
    return {
        "id": reply.id,
        "object": "response",
        "created_at": reply.created,
        "status": "completed" if incomplete is None else "incomplete",
        "error": None,
        "incomplete_details": None if incomplete is None else {"reason": incomplete},
        "instructions": None,
        "metadata": {},
        "model": reply.model,
        "output": _items(step, reply.id.removeprefix(OpenAIResponses.id_prefix)),
        "parallel_tool_calls": True,
        "temperature": None,
        "tool_choice": "auto",
        "tools": [],
        "top_p": None,
        "usage": _usage(reply.usage),
    }


def _items(step: Step, name: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    if step.reasoning is not None:
        summary = {"type": "summary_text", "text": step.reasoning}
        items.append({"id": f"rs_{name}", "type": "reasoning", "summary": [summary]})
    if step.text is not None:
        text = {"type": "output_text", "text": step.text, "annotations": [], "logprobs": []}
        items.append(
            {
                "id": f"msg_{name}",
                "type": "message",
                "role": "assistant",
                "status": "completed",
                "content": [text],
            }
        )
    for number, call in enumerate(step.tool_calls):
        items.append(
            {
                "id": f"fc_{name}_{number}",
                "type": "function_call",
                "status": "completed",
                "call_id": call.id,
                "name": call.name,
                "arguments": call.arguments,
            }
        )
    return items


def _usage(usage: Usage) -> dict[str, Any] | None:
    """None where the reply states no tokens."""
    read = {"cached_tokens": usage.cache_read_tokens, "cache_write_tokens": usage.cache_write_tokens}
    stated = {
        **totals(usage, "input_tokens", "output_tokens"),
        **details("input_tokens_details", read),
        **details("output_tokens_details", {"reasoning_tokens": usage.reasoning_tokens}),
    }
    return stated or None

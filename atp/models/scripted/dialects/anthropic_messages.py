"""Anthropic messages, streamed and not.

Shapes follow Anthropic's API reference (`/v1/messages`, version 2023-06-01), as the types of the
`anthropic` package give them. What the reference calls invalid is refused where a client could get it
wrong: no `max_tokens`, a conversation that ends with the model's own words, a thinking block that
does not come back as it was sent. Prompt caching is accepted and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import orjson
from pydantic_core import from_json

from atp.models.scripted.dialects.anatomy import Anatomy
from atp.models.scripted.dialects.anthropic_anatomy import AnthropicAnatomy
from atp.models.scripted.dialects.anthropic_replies import events, message_of, signature
from atp.models.scripted.dialects.bodies import (
    JSON,
    SSE,
    bad,
    bearer_key,
    joined_text,
    model_named,
    objects,
)
from atp.models.scripted.dialects.dialect import Rendered, Reply
from atp.models.scripted.steps import Message, RequestView, StepCall, ToolOffer, wire_arguments

_TEXT = frozenset({"text"})
_NO_TEXT = frozenset({"image", "document", "search_result", "redacted_thinking"})
_ERRORS: Mapping[int, str] = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
"""HTTP status -> `error.type`; others from 500 on are `api_error`, the rest `invalid_request_error`."""


class AnthropicMessages:
    """The `messages` route."""

    id_prefix = "msg_"
    request_id_header = "request-id"
    required_headers: tuple[str, ...] = ("anthropic-version",)
    anatomy: Anatomy = AnthropicAnatomy()

    def key(self, headers: Mapping[str, str]) -> str:
        """See `WireDialect.key`."""
        return headers.get("x-api-key") or bearer_key(headers)

    def parse(self, body: bytes, path: str) -> RequestView:
        """See `WireDialect.parse`."""
        try:
            # Half of a surrogate pair is no JSON here, as it is none there.
            data = from_json(body, allow_inf_nan=False)
        except ValueError as error:
            raise bad(f"the body is not JSON: {error}") from error
        if not isinstance(data, dict):
            raise bad("the body is not a JSON object")
        most = data.get("max_tokens")
        if not isinstance(most, int) or isinstance(most, bool) or most < 1:
            raise bad("max_tokens: a number from 1 on is required")
        choice = data.get("tool_choice")
        if choice is not None and not isinstance(choice, dict):
            raise bad("tool_choice: not an object")
        return RequestView(
            model=model_named(data),
            messages=(*_system(data.get("system")), *_messages(data.get("messages"))),
            tools=() if choice and choice.get("type") == "none" else tuple(_tools(data.get("tools"))),
            stream=data.get("stream") is True,
            stream_usage=True,
        )

    def render(self, reply: Reply, view: RequestView) -> Rendered:
        """See `WireDialect.render`.

        Raises:
            Refusal: The step has no form here: arguments that are no JSON object, in a reply that is not
                streamed.
        """
        if view.stream:
            return Rendered(200, SSE, tuple(events(reply)))
        return Rendered(200, JSON, (orjson.dumps(message_of(reply)),))

    def error(self, status: int, code: str, message: str) -> Rendered:
        """See `WireDialect.error`."""
        kind = _ERRORS.get(status, "api_error" if status >= 500 else "invalid_request_error")
        error = {"type": kind, "message": message, "details": {"error_code": code}}
        return Rendered(status, JSON, (orjson.dumps({"type": "error", "error": error}),))


def _system(raw: object) -> Iterator[Message]:
    if raw is not None:
        yield Message("system", joined_text(raw, "system", _TEXT))


def _messages(raw: object) -> Iterator[Message]:
    """Messages that stand side by side and are the model's are one reply."""
    if not raw:
        raise bad("messages: a non-empty array is required")
    said: list[Message] = []
    for where, item in objects(raw, "messages"):
        match item.get("role"):
            case "assistant":
                said.append(_reply(item.get("content"), f"{where}.content"))
                continue
            case "user":
                heard = tuple(_user(item.get("content"), f"{where}.content"))
            case "system":
                heard = (Message("system", joined_text(item.get("content"), f"{where}.content", _TEXT)),)
            case role:
                raise bad(f"{where}.role: {role!r} is none of user, assistant, system")
        yield from _one_reply(said)
        yield from heard
        said = []
    if said:
        raise bad(
            "messages: the last is the model's own, and it does not go on with words put into its mouth"
        )


def _one_reply(said: list[Message]) -> Iterator[Message]:
    if said:
        calls = tuple(call for part in said for call in part.tool_calls)
        yield Message("assistant", "".join(part.text for part in said), calls)


def _blocks(content: object, where: str) -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(content, str):
        yield where, {"type": "text", "text": content}
    elif isinstance(content, list):
        yield from objects(content, where)
    else:
        raise bad(f"{where}: neither text nor an array of blocks")


def _reply(content: object, where: str) -> Message:
    texts: list[str] = []
    calls: list[StepCall] = []
    for at, block in _blocks(content, where):
        match block.get("type"):
            case "text":
                texts.append(_string(block, "text", at))
            case "thinking":
                if block.get("signature") != signature(_string(block, "thinking", at)):
                    raise bad(f"{at}.signature: not that of this thinking; send the block as it came")
            case "tool_use":
                given = block.get("input")
                if not isinstance(given, dict):
                    raise bad(f"{at}.input: not an object")
                call_id, name = _string(block, "id", at), _string(block, "name", at)
                calls.append(StepCall(call_id, name, wire_arguments(given)))
            case kind:
                _check_silent(kind, at)
    return Message("assistant", "".join(texts), tuple(calls))


def _user(content: object, where: str) -> Iterator[Message]:
    """Each result is a message of its own, before what else the user says."""
    texts: list[str] = []
    answers = 0
    for at, block in _blocks(content, where):
        match block.get("type"):
            case "text":
                texts.append(_string(block, "text", at))
            case "tool_result":
                if not isinstance(block.get("is_error", False), bool):
                    raise bad(f"{at}.is_error: not true or false")
                told = joined_text(block.get("content"), f"{at}.content", _TEXT)
                yield Message("tool", told, tool_call_id=_string(block, "tool_use_id", at))
                answers += 1
            case kind:
                _check_silent(kind, at)
    if texts or not answers:
        yield Message("user", "".join(texts))


def _check_silent(kind: object, where: str) -> None:
    """Make sure that a block without text is one of those that are served."""
    if not isinstance(kind, str) or kind not in _NO_TEXT:
        raise bad(f"{where}.type: blocks of type {kind!r} are not served here")


def _tools(raw: object) -> Iterator[ToolOffer]:
    for where, tool in objects(raw, "tools"):
        if tool.get("type") not in (None, "custom"):
            raise bad(f"{where}.type: {tool['type']!r} is a tool of the server's, which are not served")
        schema = tool.get("input_schema")
        if not isinstance(schema, dict):
            raise bad(f"{where}.input_schema: an object is required")
        description = tool.get("description")
        described = "" if description is None else _string(tool, "description", where)
        yield ToolOffer(_string(tool, "name", where), described, schema)


def _string(item: Mapping[str, Any], key: str, where: str) -> str:
    value = item.get(key)
    if not isinstance(value, str):
        raise bad(f"{where}.{key}: not a string")
    return value

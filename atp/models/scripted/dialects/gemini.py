"""Gemini generateContent, streamed and not.

Shapes follow Google's API reference (`models.generateContent` and `models.streamGenerateContent` of
`v1beta`), as the types of the `google-genai` package give them. The model and whether to stream stand
in the path. A stream is server-sent events, as with `alt=sse`, which is what Google's SDKs ask for.

Names of fields are read in both spellings that Google's servers take (`parametersJsonSchema`,
`parameters_json_schema`): its own SDK sends both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from atp.models.scripted.dialects.anatomy import Anatomy
from atp.models.scripted.dialects.bodies import (
    JSON,
    SSE,
    bad,
    details,
    not_expressible,
    object_arguments,
    objects,
    pieces,
)
from atp.models.scripted.dialects.dialect import Rendered, Reply
from atp.models.scripted.dialects.gemini_anatomy import GeminiAnatomy
from atp.models.scripted.steps import (
    FinishReason,
    Message,
    RequestView,
    Role,
    Step,
    StepCall,
    ToolOffer,
    wire_arguments,
)
from atp.protocol.function_responses import response_text
from atp.protocol.json_text import decode
from atp.protocol.trace import Usage

PATH = re.compile(
    r"v1(?:beta|alpha)?/models/(?P<model>[^?]+):(?P<method>generateContent|streamGenerateContent)"
)
"""Path of a request below a session's base URL."""

_ROLES: Mapping[str, Role] = {"user": "user", "model": "assistant"}
_FINISH: Mapping[FinishReason, str] = {
    FinishReason.STOP: "STOP",
    FinishReason.TOOL_CALLS: "STOP",
    FinishReason.LENGTH: "MAX_TOKENS",
    FinishReason.CONTENT_FILTER: "SAFETY",
}
_STATUS: Mapping[int, str] = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ABORTED",
    429: "RESOURCE_EXHAUSTED",
    499: "CANCELLED",
    500: "INTERNAL",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
"""HTTP status -> `google.rpc.Code`, as `google/rpc/code.proto` maps them."""


class Gemini:
    """The `generateContent` and `streamGenerateContent` methods."""

    id_prefix = "gemini-"
    request_id_header = "x-request-id"
    required_headers: tuple[str, ...] = ()
    anatomy: Anatomy = GeminiAnatomy()

    def key(self, headers: Mapping[str, str]) -> str:
        """See `WireDialect.key`."""
        return headers.get("x-goog-api-key", "")

    def parse(self, body: bytes, path: str) -> RequestView:
        """See `WireDialect.parse`."""
        named = PATH.fullmatch(path)
        if named is None:
            raise bad(f"{path} names no model and method")
        try:
            data = decode(body)
        except ValueError as error:
            raise bad(f"the body is not JSON: {error}") from error
        if not isinstance(data, dict):
            raise bad("the body is not a JSON object")
        if _object(data, "generationConfig", "").get("candidateCount") not in (None, 1):
            raise bad("generationConfig.candidateCount: a scripted model gives one candidate")
        if _field(data, "cachedContent") is not None:
            raise bad("cachedContent: a scripted model keeps nothing; send the whole conversation")
        calling = _object(_object(data, "toolConfig", ""), "functionCallingConfig", "toolConfig.")
        return RequestView(
            model=named["model"],
            messages=(*_system(data), *_messages(_field(data, "contents"))),
            tools=() if calling.get("mode") == "NONE" else tuple(_tools(_field(data, "tools"))),
            stream=named["method"] == "streamGenerateContent",
            stream_usage=True,
        )

    def render(self, reply: Reply, view: RequestView) -> Rendered:
        """See `WireDialect.render`.

        Raises:
            Refusal: The step has no form here: arguments that are no JSON object, or a finish reason that
                speaks of tool calls where there are none.
        """
        parts = tuple(_parts(reply.step))
        if reply.step.finish is FinishReason.TOOL_CALLS and not reply.step.tool_calls:
            raise not_expressible("gemini", "no finish reason tool_calls for a reply without any")
        if view.stream:
            return Rendered(200, SSE, tuple(_events(reply, parts)))
        return Rendered(200, JSON, (orjson.dumps(_response(reply, parts, last=True)),))

    def error(self, status: int, code: str, message: str) -> Rendered:
        """See `WireDialect.error`."""
        reason = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": code, "domain": "scripted"}
        named = _STATUS.get(status, "INTERNAL" if status >= 500 else "FAILED_PRECONDITION")
        body = {"error": {"code": status, "message": message, "status": named, "details": [reason]}}
        return Rendered(status, JSON, (orjson.dumps(body),))


def _field(data: Mapping[str, Any], name: str) -> Any:
    """A field in either spelling; None where it is in neither."""
    value = data.get(name)
    return data.get(re.sub("([A-Z])", r"_\1", name).lower()) if value is None else value


def _object(data: Mapping[str, Any], name: str, within: str) -> Mapping[str, Any]:
    value = _field(data, name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise bad(f"{within}{name}: not an object")
    return value


def _string(data: Mapping[str, Any], name: str, where: str, missing: str | None = None) -> str:
    value = _field(data, name)
    if value is None and missing is not None:
        return missing
    if not isinstance(value, str):
        raise bad(f"{where}.{name}: not a string")
    return value


def _system(data: Mapping[str, Any]) -> Iterator[Message]:
    content = _object(data, "systemInstruction", "")
    if content:
        parts = objects(content.get("parts"), "systemInstruction.parts")
        yield Message("system", "".join(_string(part, "text", where, missing="") for where, part in parts))


def _messages(raw: object) -> Iterator[Message]:
    """A content is a message; each function response in it is one of its own, before what else it says."""
    if not raw:
        raise bad("contents: a non-empty array is required")
    for where, content in objects(raw, "contents"):
        named = content.get("role", "user")
        role = _ROLES.get(named) if isinstance(named, str) else None
        if role is None:
            raise bad(f"{where}.role: {named!r} is none of {', '.join(_ROLES)}")
        texts: list[str] = []
        calls: list[StepCall] = []
        answers: list[Message] = []
        for at, part in objects(content.get("parts"), f"{where}.parts"):
            call, answer = _object(part, "functionCall", at), _object(part, "functionResponse", at)
            if call:
                arguments = wire_arguments(dict(_object(call, "args", at)))
                calls.append(
                    StepCall(_string(call, "id", at, missing=""), _string(call, "name", at), arguments)
                )
            elif answer:
                told = response_text(_object(answer, "response", at))
                answers.append(Message("tool", told, tool_call_id=_string(answer, "id", at, missing="")))
            elif part.get("thought") is not True:
                texts.append(_string(part, "text", at, missing=""))
        yield from answers
        if texts or calls or not answers:
            yield Message(role, "".join(texts), tuple(calls))


def _tools(raw: object) -> Iterator[ToolOffer]:
    for where, tool in objects(raw, "tools"):
        declared = _field(tool, "functionDeclarations")
        if declared is None:
            raise bad(f"{where}: no functionDeclarations; other tools are not served")
        for at, function in objects(declared, f"{where}.functionDeclarations"):
            schema = _object(function, "parametersJsonSchema", at) or _object(function, "parameters", at)
            described = _string(function, "description", at, missing="")
            yield ToolOffer(_string(function, "name", at), described, dict(schema))


def _parts(step: Step) -> Iterator[dict[str, Any]]:
    if step.reasoning is not None:
        yield {"text": step.reasoning, "thought": True}
    if step.text is not None:
        yield {"text": step.text}
    for call in step.tool_calls:
        # A model that gives its calls no ids leaves the field out.
        named = {"id": call.id, "name": call.name} if call.id else {"name": call.name}
        yield {"functionCall": {**named, "args": object_arguments(call, "gemini")}}


def _response(reply: Reply, parts: Sequence[Mapping[str, Any]], *, last: bool) -> dict[str, Any]:
    content = {"role": "model", **({"parts": parts} if parts else {})}
    ending = {"finishReason": _FINISH[reply.step.finish]} if last else {}
    return {
        "candidates": [{"content": content, **ending, "index": 0}],
        **(_usage(reply.usage) if last else {}),
        "modelVersion": reply.model,
        "responseId": reply.id,
    }


def _events(reply: Reply, parts: Sequence[Mapping[str, Any]]) -> Iterator[bytes]:
    """One event for each piece of text and each call; the last one says why and how much."""
    for part in parts:
        if "text" not in part:
            yield _event(_response(reply, [part], last=False))
            continue
        for piece in pieces(part["text"]):
            yield _event(_response(reply, [{**part, "text": piece}], last=False))
    yield _event(_response(reply, [], last=True))


def _event(data: dict[str, Any]) -> bytes:
    return b"data: " + orjson.dumps(data) + b"\r\n\r\n"


def _usage(usage: Usage) -> dict[str, Any]:
    """The field `usageMetadata`: the tokens of thoughts are not among the candidates' here."""
    said = usage.output_tokens
    if said is not None and usage.reasoning_tokens is not None:
        said -= usage.reasoning_tokens
    sums = (usage.input_tokens, usage.output_tokens)
    return details(
        "usageMetadata",
        {
            "promptTokenCount": usage.input_tokens,
            "candidatesTokenCount": said,
            "totalTokenCount": None if None in sums else sum(count for count in sums if count is not None),
            "cachedContentTokenCount": usage.cache_read_tokens,
            "thoughtsTokenCount": usage.reasoning_tokens,
        },
    )

"""What OpenAI's two dialects have in common: how a body is read, refused, counted and cut to pieces."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from atp.models.scripted.dialects.dialect import Rendered
from atp.models.scripted.steps import Refusal, Role
from atp.protocol.trace import Usage

PIECE = 32
"""Characters of text, reasoning or arguments in one streamed delta."""

JSON = "application/json"
SSE = "text/event-stream; charset=utf-8"

ROLES: Mapping[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
}
"""Roles on the wire that both dialects know."""


def bearer_key(headers: Mapping[str, str]) -> str:
    """The key of the `authorization` header; empty where there is none."""
    scheme, _, key = headers.get("authorization", "").partition(" ")
    return key if scheme == "Bearer" else ""


def request_object(body: bytes) -> tuple[dict[str, Any], str]:
    """A request as an object, and the model it names.

    Raises:
        Refusal: It is none, or names no model.
    """
    try:
        data = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise bad(f"the body is not JSON: {error}") from error
    if not isinstance(data, dict):
        raise bad("the body is not a JSON object")
    model = data.get("model")
    if not isinstance(model, str) or not model:
        raise bad("model: a non-empty string is required")
    return data, model


def joined_text(content: object, where: str, kinds: frozenset[str]) -> str:
    """The text parts of a message's content, joined; parts of other kinds are no text.

    Args:
        content: A string, or an array of parts.
        where: What an error calls it.
        kinds: The `type`s of parts that are text.
    """
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, list) or not all(isinstance(part, dict) for part in content):
        raise bad(f"{where}: neither text nor an array of parts")
    kinds_of_parts = [part.get("type") for part in content]
    texts = [
        part.get("text", "")
        for part, kind in zip(content, kinds_of_parts, strict=True)
        if isinstance(kind, str) and kind in kinds
    ]
    if not all(isinstance(text, str) for text in texts):
        raise bad(f"{where}: a text part without text")
    return "".join(texts)


def bad(message: str) -> Refusal:
    """The refusal of a malformed request."""
    return Refusal(400, "invalid_request", message)


def error_answer(status: int, code: str, message: str) -> Rendered:
    """An error as OpenAI writes it."""
    kind = "server_error" if status >= 500 else "invalid_request_error"
    body = {"error": {"message": message, "type": kind, "param": None, "code": code}}
    return Rendered(status, JSON, (orjson.dumps(body),))


def pieces(text: str) -> Iterator[str]:
    """A text as streamed deltas carry it."""
    return (text[start : start + PIECE] for start in range(0, len(text), PIECE))


def totals(usage: Usage, asked: str, said: str) -> dict[str, int]:
    """The tokens asked and said, as far as they are known, and their sum.

    Args:
        usage: Of a reply.
        asked: What the dialect calls tokens of the request.
        said: And those of the reply.
    """
    counts = {asked: usage.input_tokens, said: usage.output_tokens}
    known = {key: count for key, count in counts.items() if count is not None}
    return {**known, "total_tokens": sum(known.values())} if len(known) == len(counts) else known


def details(name: str, counts: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The known counts under a name. An unknown count is left out: 0 would be a claim."""
    known = {key: count for key, count in counts.items() if count is not None}
    return {name: known} if known else {}

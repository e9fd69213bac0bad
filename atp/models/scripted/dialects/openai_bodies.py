"""What OpenAI's two dialects have in common besides: roles, requests, errors and usage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from atp.models.scripted.dialects.bodies import JSON, bad, model_named
from atp.models.scripted.dialects.dialect import Rendered
from atp.models.scripted.steps import Role
from atp.protocol.trace import Usage

ROLES: Mapping[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
}
"""Roles on the wire that both dialects know."""


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
    return data, model_named(data)


def error_answer(status: int, code: str, message: str) -> Rendered:
    """An error as OpenAI writes it."""
    kind = "server_error" if status >= 500 else "invalid_request_error"
    body = {"error": {"message": message, "type": kind, "param": None, "code": code}}
    return Rendered(status, JSON, (orjson.dumps(body),))


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

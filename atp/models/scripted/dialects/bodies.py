"""What the dialects have in common: how a body is read, refused and cut to pieces."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from atp.models.scripted.steps import Refusal, StepCall
from atp.protocol.json_text import decode

PIECE = 32
"""Characters of text, reasoning or arguments in one streamed delta."""

JSON = "application/json"
SSE = "text/event-stream; charset=utf-8"


def bearer_key(headers: Mapping[str, str]) -> str:
    """The key of the `authorization` header; empty where there is none."""
    scheme, _, key = headers.get("authorization", "").partition(" ")
    return key if scheme == "Bearer" else ""


def bad(message: str) -> Refusal:
    """The refusal of a malformed request."""
    return Refusal(400, "invalid_request", message)


def not_expressible(dialect: str, what: str) -> Refusal:
    """The refusal of a step that a dialect has no form for.

    Args:
        dialect: Its name.
        what: What it has not.
    """
    return Refusal(400, "not_expressible", f"the {dialect} dialect has {what}")


def model_named(data: Mapping[str, Any]) -> str:
    """The model that a request names.

    Raises:
        Refusal: It names none.
    """
    model = data.get("model")
    if not isinstance(model, str) or not model:
        raise bad("model: a non-empty string is required")
    return model


def objects(value: object, where: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects of an array, each with what an error calls it; none where there is no array."""
    if value is None:
        return
    if not isinstance(value, list):
        raise bad(f"{where}: not an array")
    for index, item in enumerate(value):
        if not isinstance(item, dict):
            raise bad(f"{where}[{index}]: not an object")
        yield f"{where}[{index}]", item


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


def pieces(text: str) -> Iterator[str]:
    """A text as streamed deltas carry it."""
    return (text[start : start + PIECE] for start in range(0, len(text), PIECE))


def object_arguments(call: StepCall, dialect: str) -> orjson.Fragment:
    """The arguments of a call for a body that has them as an object, number by number as they are written.

    Raises:
        Refusal: They are no JSON object.
    """
    try:
        value = decode(call.arguments)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise not_expressible(
            dialect, f"no text for the arguments of {call.name}: they have to be a JSON object"
        )
    return orjson.Fragment(call.arguments.encode())


def details(name: str, counts: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The known counts under a name. An unknown count is left out: 0 would be a claim."""
    known = {key: count for key, count in counts.items() if count is not None}
    return {name: known} if known else {}

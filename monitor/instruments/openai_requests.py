"""Reading a chat completion request off the wire."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic_core import from_json

_NOT_PARAMETERS = frozenset({"messages", "model", "stream", "stream_options", "tools"})


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """What a model is asked."""

    model: str
    messages: Sequence[Any]
    """As on the wire."""
    tools: Sequence[Any]
    stream: bool
    parameters: Mapping[str, Any]
    """Everything else."""


def read_request(content: bytes) -> ChatRequest:
    """Read a request.

    Raises:
        ValueError: It is no chat completion request.
    """
    asked = from_json(content, cache_strings="keys")
    if not isinstance(asked, dict) or not isinstance(asked.get("messages"), list):
        raise ValueError("a chat completion request is an object with messages")
    return ChatRequest(
        model=str(asked.get("model")),
        messages=asked["messages"],
        tools=asked.get("tools") or (),
        stream=asked.get("stream") is True,
        parameters={key: value for key, value in asked.items() if key not in _NOT_PARAMETERS},
    )


class WireMessageForms:
    """Messages of requests in the canonical form of `monitor.vocabulary`.

    A message of plain text that was seen before gives the same object again, so that it is hashed
    and stored once.

    Args:
        remembered: How many.
    """

    def __init__(self, remembered: int = 4096) -> None:
        self._remembered = remembered
        self._forms: OrderedDict[tuple[str, str], dict[str, Any]] = OrderedDict()

    def form(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """The canonical form."""
        role, content = message["role"], message.get("content")
        if isinstance(content, list) and len(content) == 1 and content[0].get("type") == "text":
            content = content[0]["text"]
        if not isinstance(content, str):
            return {"role": role, "parts": [_part(part) for part in content or ()]}
        known = self._forms.get((role, content))
        if known is None:
            known = {"role": role, "parts": [{"type": "text", "content": content}]}
            self._forms[role, content] = known
            if len(self._forms) > self._remembered:
                self._forms.popitem(last=False)
        return known


def _part(part: dict[str, Any]) -> dict[str, Any]:
    if part.get("type") == "text":
        return {"type": "text", "content": part["text"]}
    if part.get("type") == "image_url":
        url = part["image_url"]["url"]
        head, _, data = url.partition(";base64,")
        if head.startswith("data:") and data:
            return {"type": "blob", "modality": "image", "mime_type": head[5:], "content": data}
        return {"type": "uri", "modality": "image", "uri": url}
    return part

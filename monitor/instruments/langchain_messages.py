"""LangChain messages in the canonical form of `monitor.vocabulary`."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from monitor.instruments.image_parts import image_part

_ROLES = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool", "function": "tool"}


class MessageForms:
    """Remembers the form of each message object, so that a message is converted and hashed once.

    A message whose content or tool calls were replaced since is converted anew.

    Args:
        remembered: How many; the objects are held so that their identity stays their own.
    """

    def __init__(self, remembered: int = 4096) -> None:
        self._remembered = remembered
        self._forms: OrderedDict[int, tuple[Any, Any, Any, dict[str, Any]]] = OrderedDict()

    def form(self, message: Any) -> dict[str, Any]:
        """The canonical form; the same object for the same message."""
        calls = getattr(message, "tool_calls", None)
        known = self._forms.get(id(message))
        if known is not None and known[1] is message.content and known[2] is calls:
            return known[3]
        form = canonical(message)
        self._forms[id(message)] = (message, message.content, calls, form)
        if len(self._forms) > self._remembered:
            self._forms.popitem(last=False)
        return form


def canonical(message: Any, reasoning: str | None = None) -> dict[str, Any]:
    """The canonical form of a message.

    Args:
        message: A LangChain message.
        reasoning: Reasoning text that the SDK dropped.
    """
    kind = message.type
    role = message.role if kind == "chat" else _ROLES.get(kind, kind)
    if kind == "system" and message.additional_kwargs.get("__openai_role__") == "developer":
        role = "developer"
    if kind in {"tool", "function"}:
        identity = getattr(message, "tool_call_id", None)
        response: Any = message.content if isinstance(message.content, str) else _parts(message.content)
        parts = [{"type": "tool_call_response", "id": identity, "response": response}]
    else:
        parts = _parts(message.content)
    if reasoning is None:
        reasoning = message.additional_kwargs.get("reasoning_content")
    if reasoning and not any(part["type"] == "reasoning" for part in parts):
        parts.insert(0, {"type": "reasoning", "content": reasoning})
    for call in getattr(message, "tool_calls", ()):
        parts.append(_call(call))
    for call in getattr(message, "invalid_tool_calls", ()):
        parts.append(_call(call))
    form: dict[str, Any] = {"role": role, "parts": parts}
    if message.name:
        form["name"] = message.name
    return form


def _call(call: Any) -> dict[str, Any]:
    return {"type": "tool_call", "id": call["id"], "name": call["name"], "arguments": call["args"]}


def _parts(content: Any) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "content": content}] if content else []
    parts: list[dict[str, Any]] = []
    for block in content:
        part = {"type": "text", "content": block} if isinstance(block, str) else _block(block)
        if part is not None:
            parts.append(part)
    return parts


def _block(block: dict[str, Any]) -> dict[str, Any] | None:
    kind = block.get("type", "text")
    if kind == "text":
        return {"type": "text", "content": block.get("text", "")}
    if kind in {"reasoning", "thinking"}:
        return {"type": "reasoning", "content": block.get("reasoning") or block.get("thinking") or ""}
    if kind in {"tool_call", "tool_use", "tool_call_chunk", "invalid_tool_call", "function_call"}:
        return None  # said again in `tool_calls`, which is what the harness acts on
    if kind == "image_url":
        url = block["image_url"] if isinstance(block["image_url"], str) else block["image_url"]["url"]
        return image_part(url)
    return block

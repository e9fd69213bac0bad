"""What the messages of a span say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from atp.protocol.spans import Span

_ATTACHMENT = ("type", "modality", "mime_type", "file_id", "uri", "name")


def messages(span: Span, name: str, bodies: Mapping[str, Any]) -> Sequence[Any]:
    """A list of messages that a span names; empty where it names none, or the body is not there."""
    value = bodies.get(span.bodies.get(name, ""))
    return value if isinstance(value, list) else []


def parts_of(message: Any) -> Sequence[dict[str, Any]]:
    """The parts of a message."""
    parts = message.get("parts") if isinstance(message, dict) else None
    return [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []


def text_of(said: Sequence[Any], role: str) -> str:
    """What those of a role say, reasoning and calls aside; messages are joined by a line break."""
    texts = [
        "".join(str(part.get("content", "")) for part in parts_of(message) if part.get("type") == "text")
        for message in said
        if isinstance(message, dict) and message.get("role") == role
    ]
    return "\n".join(text for text in texts if text)


def attachments_of(said: Sequence[Any]) -> list[dict[str, Any]]:
    """What comes with messages besides text: which kind, which name or digest, never the content."""
    return [
        {name: part[name] for name in _ATTACHMENT if name in part}
        for message in said
        for part in parts_of(message)
        if part.get("type") in ("uri", "blob", "file")
    ]

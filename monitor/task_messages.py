"""What a task asks and what came of it, in the canonical form of `monitor.vocabulary`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from atp.protocol.task import FilePart, ImagePart, Part, TextPart


def asked(instruction: Sequence[Part]) -> list[dict[str, Any]]:
    """The instruction as one user message; empty where the user speaks first."""
    return [{"role": "user", "parts": [_part(part) for part in instruction]}] if instruction else []


def answered(text: str) -> list[dict[str, Any]]:
    """The final answer as one message of the assistant."""
    return [{"role": "assistant", "parts": [{"type": "text", "content": text}] if text else []}]


def _part(part: Part) -> dict[str, Any]:
    match part:
        case TextPart():
            return {"type": "text", "content": part.text}
        case ImagePart():
            return {
                "type": "file",
                "modality": "image",
                "mime_type": part.media_type,
                "file_id": part.sha256,
            }
        case FilePart():
            modality, _, _ = part.media_type.partition("/")
            return {
                "type": "file",
                "modality": modality,
                "mime_type": part.media_type,
                "file_id": part.sha256,
                "name": part.name,
            }

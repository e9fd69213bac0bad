"""Images as OpenAI's wire formats name them, in the canonical form of `monitor.vocabulary`."""

from __future__ import annotations

from typing import Any


def image_part(url: str) -> dict[str, Any]:
    """An image by its address; one that the address holds itself (RFC 2397) as its bytes."""
    head, _, data = url.partition(";base64,")
    if head.startswith("data:") and data:
        return {"type": "blob", "modality": "image", "mime_type": head[5:], "content": data}
    return {"type": "uri", "modality": "image", "uri": url}

"""What to say about a name that nothing answers to."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint for the message that follows the unknown name: ` (nearest: a, b)`, or nothing."""
    close = get_close_matches(name, list(known), n=2, cutoff=0.5)
    return f" (nearest: {', '.join(close)})" if close else ""

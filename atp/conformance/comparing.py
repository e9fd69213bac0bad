"""How values are compared, and shown when they differ."""

from __future__ import annotations

import json
from typing import Any

SHOWN = 160
"""Characters of a value in a message."""


def canonical(value: Any) -> str:
    """JSON text that is equal where JSON values are: 2.0 is not 2, true is not 1, keys have no order."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def short(value: Any) -> str:
    """A value for a message, cut in its middle where it is long."""
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 40]}…{text[-30:]}"

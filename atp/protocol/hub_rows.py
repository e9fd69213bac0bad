"""Rows of a hub data set as they lie on disk: plain JSON Lines, and a receipt of what they are.

Whoever fetches writes them, a benchmark reads them; neither reading nor checking needs the `datasets`
library.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from atp.protocol.base import Digest, Frozen
from atp.protocol.cards import HubSource
from atp.protocol.errors import InvalidInput, NotReady

ROWS = "rows.jsonl"
"""One row on each line, in the split's order, columns as the hub names them; UTF-8."""
RECEIPT = "receipt.json"
"""A `Receipt`."""


class Receipt(Frozen):
    """What was fetched, and the digest that it is checked by."""

    dataset: str
    config: str
    split: str
    revision: str
    rows: int
    sha256: Digest
    """Of the file of rows."""
    library: str
    """The version of `datasets` that read them."""


def read_rows(data: Path | None, source: HubSource) -> Sequence[dict[str, Any]]:
    """The rows of a fetched split, checked by digest.

    Args:
        data: The folder `atp data get` filled; None when there is none.
        source: What it was filled from.

    Raises:
        NotReady: The rows have not been fetched.
        InvalidInput: They are not what was fetched, or not what the source pins.
    """
    command = f"`atp data get {source.name}`"
    if data is None:
        raise NotReady(f"the rows of {source.name} are not here: {command}")
    content, trouble = _checked(data, source)
    if trouble is not None:
        raise InvalidInput(f"{trouble}; remove {data} and run {command}")
    return [json.loads(line) for line in content.splitlines()]


def trouble_with(data: Path, source: HubSource) -> str | None:
    """What is wrong with a folder of fetched rows; None when nothing is. Reads all of them."""
    return _checked(data, source)[1]


def receipt_in(data: Path) -> Receipt | None:
    """The receipt in a folder of fetched rows; None when there is no readable one."""
    try:
        return Receipt.model_validate_json((data / RECEIPT).read_bytes())
    except (OSError, ValidationError):
        return None


def _checked(data: Path, source: HubSource) -> tuple[bytes, str | None]:
    receipt = receipt_in(data)
    if receipt is None:
        return b"", f"{data / RECEIPT} cannot be read"
    pinned = {"dataset", "config", "split", "revision", "rows"}
    if receipt.model_dump(include=pinned) != source.model_dump(include=pinned):
        return b"", f"{data / RECEIPT} is that of another data set"
    try:
        content = (data / ROWS).read_bytes()
    except OSError as error:
        return b"", f"{data / ROWS} cannot be read ({error.strerror})"
    if hashlib.sha256(content).hexdigest() != receipt.sha256:
        return b"", f"{data / ROWS} was changed"
    return content, None

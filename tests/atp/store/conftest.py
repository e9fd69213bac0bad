"""A database of its own for every test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from atp.store.store import Store


@pytest.fixture
def url(tmp_path: Path) -> str:
    """The address of a database that does not exist yet."""
    return f"sqlite:///{tmp_path / 'atp.db'}"


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    """An open, empty store."""
    with Store.open(url) as opened:
        yield opened

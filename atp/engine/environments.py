"""Worker environments: a Python interpreter with one harness's SDK and this distribution beside it.

An environment holds the pinned, hashed requirements that ship with the adapter, then this
distribution and the adapter's own, without their dependencies: what a worker imports needs no more.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from atp.engine import virtual_environment
from atp.engine.virtual_environment import Recipe, ask, python_in
from atp.protocol.cards import HarnessCard
from atp.protocol.errors import InvalidInput, NotReady

OWN_DISTRIBUTION = "agent-task-protocol"

_LIST_PACKAGES = """
import importlib.metadata, json, sys
json.dump({d.metadata["Name"].lower().replace("_", "-"): d.version for d in importlib.metadata.distributions()
           if d.metadata["Name"]}, sys.stdout)
"""


@dataclass(frozen=True, slots=True)
class EnvironmentInfo:
    """An environment of a harness. Only `packages` runs anything."""

    harness: str
    python: Path
    path: Path | None
    """Its folder below `ATP_HOME`; None when the harness runs on the engine's own interpreter."""


async def create(card: HarnessCard) -> EnvironmentInfo:
    """Make the harness's environment, or find it made.

    Raises:
        InfrastructureError: The packages cannot be had or installed; says what uv says.
        PluginError: The card names requirements or a distribution that are not there.
    """
    if card.requirements is None:
        return EnvironmentInfo(card.environment_name, engine_python(), None)
    folder = await virtual_environment.make(_recipe(card))
    return EnvironmentInfo(card.environment_name, python_in(folder), folder)


def find(card: HarnessCard) -> EnvironmentInfo | None:
    """The harness's environment as its card asks for it now; None when it is not made."""
    if card.requirements is None:
        return EnvironmentInfo(card.environment_name, engine_python(), None)
    folder = virtual_environment.folder_of(_recipe(card))
    return EnvironmentInfo(card.environment_name, python_in(folder), folder) if folder.exists() else None


def existing(cards: Iterable[HarnessCard]) -> Sequence[EnvironmentInfo]:
    """The environments of these harnesses that are made, one each."""
    return [info for card in cards if (info := find(card)) is not None]


def remove(card: HarnessCard) -> Sequence[Path]:
    """Remove every environment of the harness, those of older pins too; gives the removed folders."""
    removed = sorted(
        folder
        for folder in virtual_environment.root().glob(f"{card.environment_name}-*")
        if _is_of(folder, card.environment_name)
    )
    for folder in removed:
        # Renamed first: a name that exists always stands for a whole environment.
        going = folder.with_name(f".{folder.name}.removed")
        folder.rename(going)
        shutil.rmtree(going)
    return removed


def python_for(card: HarnessCard, override: Path | None = None) -> Path:
    """The interpreter that the harness's worker runs on.

    Args:
        card: The harness.
        override: `--python PATH`.

    Raises:
        NotReady: The environment is not made; says the command that makes it.
        InvalidInput: `override` is no file that can be run.
    """
    if override is not None:
        found = shutil.which(override)
        if found is None:
            raise InvalidInput(f"--python {override}: no such program")
        return Path(found)
    info = find(card)
    if info is None:
        raise NotReady(f"harness {card.environment_name!r} has no environment yet; type: {command_for(card)}")
    return info.python


def engine_python() -> Path:
    """The interpreter this process runs on."""
    return Path(sys.executable)


def command_for(card: HarnessCard) -> str:
    """The command that makes the harness's environment."""
    return f"atp env create {card.environment_name}"


def packages(python: Path) -> Mapping[str, str]:
    """Distribution -> version of what an interpreter can import, by asking it; once, then from memory.

    Blocks for the time that interpreter needs to start, so it belongs before a run, not into it.

    Raises:
        InfrastructureError: It cannot be run.
    """
    key = (python, _changed(python))
    if key not in _packages_seen:
        _packages_seen[key] = json.loads(ask(python, "-c", _LIST_PACKAGES))
    return _packages_seen[key]


_packages_seen: dict[tuple[Path, int], Mapping[str, str]] = {}


def _changed(python: Path) -> int:
    """When packages last came or went there, in nanoseconds; installing one touches the folder."""
    folders = [*python.parent.parent.glob("lib/python3*/site-packages"), python]
    return max(folder.stat().st_mtime_ns for folder in folders if folder.exists())


def _recipe(card: HarnessCard) -> Recipe:
    assert card.requirements is not None
    return Recipe(
        name=card.environment_name,
        owner=f"harness {card.environment_name!r}",
        command=command_for(card),
        requirements=card.requirements,
        distributions=tuple(dict.fromkeys((OWN_DISTRIBUTION, card.distribution))),
    )


def _is_of(folder: Path, harness: str) -> bool:
    suffix = folder.name.removeprefix(f"{harness}-")
    return folder.is_dir() and len(suffix) == 12 and set(suffix) <= set("0123456789abcdef")

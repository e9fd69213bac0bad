"""Worker environments: a Python interpreter with one harness's SDK, or one benchmark's package, and this
distribution beside it.

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
from typing import Literal, TypeAlias

from atp.engine import virtual_environment
from atp.engine.virtual_environment import Recipe, ask, python_in
from atp.protocol.cards import BenchmarkCard, HarnessCard
from atp.protocol.errors import InvalidInput, NotReady

OWN_DISTRIBUTION = "agent-task-protocol"

_LIST_PACKAGES = """
import importlib.metadata, json, sys
json.dump({d.metadata["Name"].lower().replace("_", "-"): d.version for d in importlib.metadata.distributions()
           if d.metadata["Name"]}, sys.stdout)
"""


Kind = Literal["harness", "benchmark", "reader"]

Owner: TypeAlias = HarnessCard | BenchmarkCard | Recipe
"""Who has an environment: a harness; a benchmark, where its card names a worker; or the reader of hub data
sets, by its recipe."""


@dataclass(frozen=True, slots=True)
class EnvironmentInfo:
    """An environment. Only `packages` runs anything."""

    name: str
    """Of the harness, or of the benchmark."""
    kind: Kind
    python: Path
    path: Path | None
    """Its folder below `ATP_HOME`; None for what runs on the engine's own interpreter."""


async def create(owner: Owner) -> EnvironmentInfo:
    """Make the owner's environment, or find it made.

    Raises:
        InfrastructureError: The packages cannot be had or installed; says what uv says.
        PluginError: The card names requirements or a distribution that are not there.
    """
    recipe = _recipe(owner)
    return _info(owner, None if recipe is None else await virtual_environment.make(recipe))


def find(owner: Owner) -> EnvironmentInfo | None:
    """The environment as its owner asks for it now; None when it is not made."""
    recipe = _recipe(owner)
    if recipe is None:
        return _info(owner, None)
    folder = virtual_environment.folder_of(recipe)
    return _info(owner, folder) if folder.exists() else None


def existing(owners: Iterable[Owner]) -> Sequence[EnvironmentInfo]:
    """The environments of these that are made, one each."""
    return [info for owner in owners if (info := find(owner)) is not None]


def remove(owner: Owner) -> Sequence[Path]:
    """Remove every environment of the owner, those of older pins too; gives the removed folders."""
    name = name_of(owner)
    removed = sorted(
        folder for folder in virtual_environment.root().glob(f"{name}-*") if _is_of(folder, name)
    )
    for folder in removed:
        # Renamed first: a name that exists always stands for a whole environment.
        going = folder.with_name(f".{folder.name}.removed")
        folder.rename(going)
        shutil.rmtree(going)
    return removed


def python_for(owner: Owner, override: Path | None = None) -> Path:
    """The interpreter that the owner's worker runs on.

    Args:
        owner: The harness or benchmark.
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
    info = find(owner)
    if info is None:
        raise NotReady(f"{_called(owner)} has no environment yet; type: {command_for(owner)}")
    return info.python


def pins(owner: Owner) -> str | None:
    """SHA-256 of the owner's pinned requirements; None for what needs none."""
    recipe = _recipe(owner)
    return None if recipe is None else virtual_environment.pins(recipe)


def engine_python() -> Path:
    """The interpreter this process runs on."""
    return Path(sys.executable)


def command_for(owner: Owner) -> str:
    """The command that makes the owner's environment."""
    return f"atp env create {name_of(owner)}"


def name_of(owner: Owner) -> str:
    """What `atp env` calls the owner's environment."""
    return owner.environment_name if isinstance(owner, HarnessCard) else owner.name


def kind_of(owner: Owner) -> Kind:
    """What the owner is."""
    match owner:
        case HarnessCard():
            return "harness"
        case BenchmarkCard():
            return "benchmark"
        case Recipe():
            return "reader"


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


def _recipe(owner: Owner) -> Recipe | None:
    """How it is made; None for what needs none."""
    if isinstance(owner, Recipe):
        return owner
    needs = owner.worker if isinstance(owner, BenchmarkCard) else owner
    if needs is None or needs.requirements is None:
        return None
    return Recipe(
        name=name_of(owner),
        owner=_called(owner),
        command=command_for(owner),
        requirements=needs.requirements,
        distributions=tuple(dict.fromkeys((OWN_DISTRIBUTION, needs.distribution))),
    )


def _info(owner: Owner, folder: Path | None) -> EnvironmentInfo:
    python = engine_python() if folder is None else python_in(folder)
    return EnvironmentInfo(name_of(owner), kind_of(owner), python, folder)


def _called(owner: Owner) -> str:
    return owner.owner if isinstance(owner, Recipe) else f"{kind_of(owner)} {name_of(owner)!r}"


def _is_of(folder: Path, name: str) -> bool:
    suffix = folder.name.removeprefix(f"{name}-")
    return folder.is_dir() and len(suffix) == 12 and set(suffix) <= set("0123456789abcdef")

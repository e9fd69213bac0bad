"""Worker environments: a Python interpreter with one harness's SDK and this distribution beside it.

An environment holds the pinned, hashed requirements that ship with the adapter, then this
distribution and the adapter's own, without their dependencies: what a worker imports needs no more.
Its folder is named by a digest of all that went into it, so a changed pin is another environment
and an old one is never half updated.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.resources import files
from pathlib import Path

from atp.engine.home import building, home
from atp.engine.installer import uv
from atp.protocol.cards import HarnessCard
from atp.protocol.errors import InfrastructureError, InvalidInput, NotReady, PluginError

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
        return EnvironmentInfo(card.name, engine_python(), None)
    requirements = _requirements(card)
    async with building(_folder(card)) as folder:
        if folder is not None:
            await _fill(folder, card, requirements)
    return EnvironmentInfo(card.name, _python(_folder(card)), _folder(card))


def find(card: HarnessCard) -> EnvironmentInfo | None:
    """The harness's environment as its card asks for it now; None when it is not made."""
    if card.requirements is None:
        return EnvironmentInfo(card.name, engine_python(), None)
    folder = _folder(card)
    return EnvironmentInfo(card.name, _python(folder), folder) if folder.exists() else None


def existing(cards: Iterable[HarnessCard]) -> Sequence[EnvironmentInfo]:
    """The environments of these harnesses that are made, one each."""
    return [info for card in cards if (info := find(card)) is not None]


def remove(card: HarnessCard) -> Sequence[Path]:
    """Remove every environment of the harness, those of older pins too; gives the removed folders."""
    removed = sorted(folder for folder in _root().glob(f"{card.name}-*") if _is_of(folder, card.name))
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
        raise NotReady(f"harness {card.name!r} has no environment yet; type: {command_for(card)}")
    return info.python


def engine_python() -> Path:
    """The interpreter this process runs on."""
    return Path(sys.executable)


def command_for(card: HarnessCard) -> str:
    """The command that makes the harness's environment."""
    return f"atp env create {card.name}"


def packages(python: Path) -> Mapping[str, str]:
    """Distribution -> version of what an interpreter can import, by asking it; once, then from memory.

    Blocks for the time that interpreter needs to start, so it belongs before a run, not into it.

    Raises:
        InfrastructureError: It cannot be run.
    """
    key = (python, _changed(python))
    if key not in _packages_seen:
        _packages_seen[key] = json.loads(_run(python, "-c", _LIST_PACKAGES))
    return _packages_seen[key]


_packages_seen: dict[tuple[Path, int], Mapping[str, str]] = {}


def _changed(python: Path) -> int:
    """When packages last came or went there, in nanoseconds; installing one touches the folder."""
    folders = [*python.parent.parent.glob("lib/python3*/site-packages"), python]
    return max(folder.stat().st_mtime_ns for folder in folders if folder.exists())


async def _fill(folder: Path, card: HarnessCard, requirements: Path) -> None:
    # --relocatable: the folder is renamed into place once it is whole.
    await _uv(
        card, "venv", "--quiet", "--relocatable", "--allow-existing", "--python", sys.executable, folder
    )
    await _uv(
        card,
        "pip",
        "install",
        "--quiet",
        "--compile-bytecode",
        "--require-hashes",
        "--python",
        _python(folder),
        "-r",
        requirements,
    )
    [site_packages] = folder.glob("lib/python3*/site-packages")
    for name in dict.fromkeys((OWN_DISTRIBUTION, card.distribution)):
        await asyncio.to_thread(_bring, name, card, site_packages)
    await asyncio.to_thread(_run, _python(folder), "-m", "compileall", "-q", site_packages)


def _bring(name: str, card: HarnessCard, site_packages: Path) -> None:
    """Copy what the distribution's RECORD lists, without its scripts and without building anything.

    For an editable installation that is the small file pointing at its sources.
    """
    found = _distribution(name, card)
    for entry in found.files or ():
        if ".." in entry.parts or entry.is_absolute() or entry.suffix == ".pyc":
            continue
        target = site_packages / entry
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(str(entry.locate()), target)


def _distribution(name: str, card: HarnessCard) -> Distribution:
    try:
        found = distribution(name)
    except PackageNotFoundError:
        raise PluginError(
            f"harness {card.name!r} says distribution {name!r} brings it, but that is not installed"
        ) from None
    if not found.files:
        raise PluginError(
            f"distribution {name!r} has no RECORD of its files, so it cannot be brought into the "
            f"environment of harness {card.name!r}; install it with pip or uv"
        )
    return found


def _requirements(card: HarnessCard) -> Path:
    assert card.requirements is not None
    package, _, name = card.requirements.rpartition("/")
    try:
        path = Path(str(files(package.replace("/", ".")).joinpath(name)))
    except ImportError as error:
        raise PluginError(f"harness {card.name!r}: requirements {card.requirements!r}: {error}") from error
    if not path.is_file():
        raise PluginError(f"harness {card.name!r}: requirements {card.requirements!r} are not at {path}")
    return path


def _folder(card: HarnessCard) -> Path:
    digest = hashlib.sha256()
    digest.update(_requirements(card).read_bytes())
    digest.update(f"{platform.python_implementation()} {platform.python_version()}".encode())
    digest.update(platform.machine().encode())
    for name in dict.fromkeys((OWN_DISTRIBUTION, card.distribution)):
        found = _distribution(name, card)
        # RECORD holds the digest of every file, that of an editable installation's pointer too.
        digest.update(f"{name} {found.version} {found.locate_file('')}".encode())
        digest.update((found.read_text("RECORD") or "").encode())
    return _root() / f"{card.name}-{digest.hexdigest()[:12]}"


def _root() -> Path:
    return home() / "envs"


def _is_of(folder: Path, harness: str) -> bool:
    suffix = folder.name.removeprefix(f"{harness}-")
    return folder.is_dir() and len(suffix) == 12 and set(suffix) <= set("0123456789abcdef")


def _python(folder: Path) -> Path:
    return folder / "bin" / "python"


async def _uv(card: HarnessCard, *arguments: str | Path) -> None:
    outcome = await uv(*(str(argument) for argument in arguments))
    if outcome.exit_code != 0:
        raise InfrastructureError(
            f"the environment of harness {card.name!r} cannot be made from {card.requirements}: "
            f"{outcome.error}\nWhen the network is back, type again: {command_for(card)}"
        )


def _run(python: Path, *arguments: str | Path) -> bytes:
    try:
        done = subprocess.run(
            [python, "-P", *arguments], stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
    except OSError as error:
        raise InfrastructureError(f"{python} cannot be run: {error.strerror}") from error
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip()
        raise InfrastructureError(f"{python} ended with {done.returncode}: {said}")
    return done.stdout

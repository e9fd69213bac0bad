"""The distribution's own name as a module: its version, its entry script, and the check of its packages.

`atp`, `adapters` and `monitor` are also import names of unrelated packages. This name is not, so it
is found where it was installed even when one of the three is shadowed, and can say so.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import PathFinder

__version__ = "0.1.0"

PACKAGES = ("atp", "adapters", "monitor")

_HOME = os.path.dirname(os.path.abspath(__file__))
_MARKER = b"from agent_task_protocol import require_own_packages"


class WrongPackageError(ImportError):
    """A package of another project stands where one of ours should be."""


def require_own_packages() -> None:
    """Refuse to go on when an unrelated package shadows or replaces one of ours.

    Every one of our packages calls this as it is imported, so the first import of any of them
    speaks up, in whatever process it happens.

    Raises:
        WrongPackageError: Names the package, where it was found, and the ways out.
    """
    for name in PACKAGES:
        found = _location(name)
        if found is None:
            raise WrongPackageError(
                f"the package {name!r} of agent-task-protocol is missing from {_HOME}; "
                "install agent-task-protocol again"
            )
        if os.path.realpath(os.path.dirname(found)) != os.path.realpath(_HOME) or not _is_ours(found):
            raise WrongPackageError(
                f"the package {name!r} that Python finds is not the one of agent-task-protocol: "
                f"it is {found}, ours belongs in {_HOME}. Take the other one off PYTHONPATH, or uninstall "
                "the distribution that brought it and install agent-task-protocol again, or use a virtual "
                "environment of its own"
            )


def main() -> None:
    """The `atp` command. Ends the process with its exit code."""
    try:
        require_own_packages()
    except WrongPackageError as error:
        sys.stderr.write(f"atp: {error}\n")
        sys.exit(3)
    from atp.cli import main as run_command

    run_command()


def _location(name: str) -> str | None:
    """The folder the package is, or would be, imported from."""
    loaded = sys.modules.get(name)
    spec = loaded.__spec__ if loaded is not None else PathFinder.find_spec(name)
    if spec is None:
        return None
    if spec.submodule_search_locations:
        return os.path.abspath(next(iter(spec.submodule_search_locations)))
    return os.path.abspath(spec.origin) if spec.origin else None


def _is_ours(folder: str) -> bool:
    """Whether our own `__init__.py` is there: another project may have been installed over it."""
    try:
        with open(os.path.join(folder, "__init__.py"), "rb") as source:
            return _MARKER in source.read(4096)
    except OSError:
        return False


if __name__ == "__main__":
    main()

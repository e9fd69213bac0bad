"""`atp doctor`: whether this machine has what ATP needs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import typer

from atp.cli.options import Settings, command
from atp.cli.output import print_json, print_table
from atp.protocol.errors import AtpError

if TYPE_CHECKING:
    from atp.protocol.cards import BenchmarkCard, HarnessCard


@command
def doctor(settings: Settings) -> None:
    """Check this machine; exit 1 when something is wrong or missing."""
    checks = [
        _check("python", _python),
        _check("uv", _uv),
        _check("home", _home),
        _check("sandbox", _sandbox),
        *_adapters(),
    ]
    if settings.json:
        print_json({"checks": checks})
    else:
        print_table(
            ("check", "ok", "detail"), [(each["name"], each["ok"], each["detail"]) for each in checks]
        )
    if not all(each["ok"] for each in checks):
        raise typer.Exit(1)


def _check(name: str, look: Callable[[], str]) -> dict[str, Any]:
    """Run one check; it says what it found, or raises what is wrong."""
    try:
        return {"name": name, "ok": True, "detail": look()}
    except (AtpError, OSError) as error:
        return {"name": name, "ok": False, "detail": str(error)}


def _python() -> str:
    import platform
    import sys

    return f"{platform.python_implementation()} {platform.python_version()} at {sys.executable}"


def _uv() -> str:
    from atp.engine.installer import uv_binary

    return uv_binary()


def _home() -> str:
    import tempfile

    from atp.engine.home import home

    folder = home()
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder):
        return f"{folder} can be written"


def _sandbox() -> str:
    import asyncio

    from atp.sandbox import probe

    found = asyncio.run(probe())
    return "; ".join([f"{found.backend} {found.version}, Python {found.python}", *found.holds])


def _adapters() -> list[dict[str, Any]]:
    from atp import registry

    checks: list[dict[str, Any]] = []
    try:
        benchmarks, harnesses = registry.benchmarks(), registry.harnesses()
    except AtpError as error:
        return [{"name": "adapters", "ok": False, "detail": error.message}]
    checks.append({"name": "adapters", "ok": True, "detail": ", ".join([*benchmarks, *harnesses])})
    for harness in harnesses.values():
        checks.append(_check(f"environment of {harness.name}", functools.partial(_environment, harness)))
    for benchmark in benchmarks.values():
        if benchmark.worker is not None:
            checks.append(
                _check(f"environment of {benchmark.name}", functools.partial(_environment, benchmark))
            )
        if benchmark.data is not None:
            checks.append(_check(f"data of {benchmark.name}", functools.partial(_data, benchmark)))
    return checks


def _environment(card: HarnessCard | BenchmarkCard) -> str:
    from atp.engine import environments

    return str(environments.python_for(card))


def _data(card: BenchmarkCard) -> str:
    from atp.engine import datasets

    return str(datasets.folder_for(card))

"""An unrelated package that bears one of our names is called by its place, wherever it gets in."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent_task_protocol import PACKAGES

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def foreign(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A package of another project, with the name given by the parameter."""
    package = tmp_path / "elsewhere" / str(request.param)
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("VERSION = 'of another project'\n", encoding="utf-8")
    return package


def _run(path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        arguments,
        env={**os.environ, "PYTHONPATH": str(path)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("foreign", PACKAGES, indirect=True)
def test_the_command_says_which_package_is_wrong_and_ends_with_3(foreign: Path) -> None:
    script = Path(sys.executable).parent / "atp"
    run = _run(foreign.parent, str(script), "list", "benchmarks")
    assert run.returncode == 3
    assert str(foreign) in run.stderr
    assert "not the one of agent-task-protocol" in run.stderr
    assert "Traceback" not in run.stderr
    assert run.stdout == ""


@pytest.mark.parametrize(
    ("foreign", "module"),
    [
        ("atp", "adapters"),
        ("atp", "monitor"),
        ("adapters", "atp.protocol.task"),
        ("adapters", "monitor"),
        ("monitor", "atp.protocol.task"),
        ("monitor", "adapters"),
    ],
    indirect=["foreign"],
)
def test_importing_ours_beside_a_foreign_one_says_so(foreign: Path, module: str) -> None:
    run = _run(foreign.parent, sys.executable, "-P", "-c", f"import {module}")
    assert run.returncode == 1
    assert f"WrongPackageError: the package {foreign.name!r}" in run.stderr
    assert str(foreign) in run.stderr


def test_a_package_installed_over_ours_is_noticed(tmp_path: Path) -> None:
    for name in PACKAGES:
        package = tmp_path / name
        package.mkdir()
        content = (ROOT / name / "__init__.py").read_bytes() if name != "adapters" else b"# another project\n"
        (package / "__init__.py").write_bytes(content)
    (tmp_path / "agent_task_protocol.py").write_bytes((ROOT / "agent_task_protocol.py").read_bytes())
    run = _run(tmp_path, sys.executable, "-P", "-c", "import atp")
    assert "WrongPackageError: the package 'adapters' that Python finds is not the one" in run.stderr


def test_a_missing_package_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "agent_task_protocol.py").write_bytes((ROOT / "agent_task_protocol.py").read_bytes())
    code = "import agent_task_protocol; agent_task_protocol.require_own_packages()"
    run = _run(tmp_path, sys.executable, "-P", "-S", "-c", code)
    assert "the package 'atp' of agent-task-protocol is missing" in run.stderr

"""A harness's environment: made once, whole or not at all, with no more than a worker needs."""

from __future__ import annotations

import asyncio
import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

from atp import registry
from atp.engine import environments
from atp.protocol.errors import InfrastructureError, InvalidInput, NotReady, PluginError

_IMPORTED_BY_A_WORKER = """
import importlib, pkgutil, sys
import atp.protocol, atp.worker, adapters.harnesses, monitor
for package in (atp.protocol, atp.worker, adapters.harnesses, monitor):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        importlib.import_module(module.name)
heavy = {"aiohttp", "alembic", "jsonschema", "psutil", "rich", "sqlalchemy", "starlette", "typer", "uvicorn"}
print(sorted(heavy & set(sys.modules)), sorted(heavy & set(sys.argv)))
"""


def test_a_worker_imports_all_it_needs_in_the_pinned_environment() -> None:
    info = asyncio.run(environments.create(registry.harness("langgraph")))
    packages = environments.packages(info.python)
    assert packages["langgraph"] == registry.harness("langgraph").version
    assert "agent-task-protocol" in packages
    assert not {"aiohttp", "sqlalchemy", "jsonschema", "typer", "uvicorn"} & packages.keys()
    run = subprocess.run(
        [info.python, "-P", "-c", _IMPORTED_BY_A_WORKER], capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout == "[] []\n"


def test_a_second_creator_finds_the_work_done() -> None:
    card = registry.harness("langgraph")

    async def both() -> tuple[environments.EnvironmentInfo, environments.EnvironmentInfo]:
        return await asyncio.gather(environments.create(card), environments.create(card))

    first, second = asyncio.run(both())
    assert first == second == environments.find(card)


def test_a_harness_without_requirements_runs_on_the_engines_interpreter() -> None:
    card = registry.harness("thinloop")
    assert environments.python_for(card) == Path(sys.executable)
    assert asyncio.run(environments.create(card)).path is None


def test_a_missing_environment_says_its_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATP_HOME", str(tmp_path))
    with pytest.raises(NotReady, match="atp env create langgraph"):
        environments.python_for(registry.harness("langgraph"))


def test_an_interpreter_of_the_users_goes_first() -> None:
    card = registry.harness("langgraph")
    assert environments.python_for(card, Path(sys.executable)) == Path(sys.executable)


def test_an_interpreter_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no such program"):
        environments.python_for(registry.harness("langgraph"), tmp_path / "python")


def test_another_pin_is_another_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "pinned_harness"
    package.mkdir()
    (package / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("ATP_HOME", str(tmp_path / "home"))
    requirements = package / "lock.txt"
    card = registry.harness("thinloop").model_copy(update={"requirements": "pinned_harness/lock.txt"})
    requirements.write_text("", encoding="utf-8")
    first = asyncio.run(environments.create(card)).path
    requirements.write_text("# changed\n", encoding="utf-8")
    assert environments.find(card) is None
    second = asyncio.run(environments.create(card)).path
    assert first is not None and second is not None and first != second
    assert set(environments.remove(card)) == {first, second}
    assert not first.exists() and not second.exists()


def test_the_adapters_own_distribution_is_brought_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "bringing_harness"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "lock.txt").write_text("", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("ATP_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("PYTHONPATH")
    card = registry.harness("thinloop").model_copy(update={"requirements": "bringing_harness/lock.txt"})
    info = asyncio.run(environments.create(card))
    assert environments.packages(info.python)["atp-test-plugin"] == "0.1"
    subprocess.run([info.python, "-P", "-c", "import thinloop, ledger, agent_task_protocol"], check=True)


def test_another_pin_of_a_benchmark_is_another_definition() -> None:
    card = registry.benchmark("agentdojo").card
    pinned = Path(environments.__file__).parents[2] / "adapters/benchmarks/agentdojo/requirements.txt"
    assert environments.pins(card) == hashlib.sha256(pinned.read_bytes()).hexdigest()
    assert environments.pins(registry.benchmark("ledger").card) is None


def test_a_benchmark_that_lives_in_the_engine_needs_no_environment() -> None:
    card = registry.benchmark("ledger").card
    assert environments.python_for(card) == Path(sys.executable)


def test_a_benchmarks_missing_environment_is_named_with_its_command_wherever_it_is_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ATP_HOME", str(tmp_path))
    missing = "benchmark 'agentdojo' has no environment yet; type: atp env create agentdojo"
    with pytest.raises(NotReady, match=missing):
        environments.python_for(registry.benchmark("agentdojo").card)
    with pytest.raises(NotReady, match=missing):
        registry.benchmark("agentdojo").load(None)
    pairing = registry.resolve("agentdojo", "thinloop", "scripted/oracle")
    assert pairing.problems == (missing,)


def test_pins_without_digests_are_refused_and_leave_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "loose_harness"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "lock.txt").write_text("annotated-types==0.8.0\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("ATP_HOME", str(tmp_path / "home"))
    card = registry.harness("thinloop").model_copy(update={"requirements": "loose_harness/lock.txt"})
    with pytest.raises(InfrastructureError, match="atp env create thinloop"):
        asyncio.run(environments.create(card))
    assert environments.find(card) is None
    assert [entry.suffix for entry in (tmp_path / "home" / "envs").iterdir()] == [".lock"]


def test_requirements_that_are_not_there_are_the_plugins_fault() -> None:
    card = registry.harness("thinloop").model_copy(update={"requirements": "adapters/harnesses/none.txt"})
    with pytest.raises(PluginError, match="adapters/harnesses/none.txt"):
        environments.find(card)


def test_a_distribution_that_is_not_installed_is_the_plugins_fault() -> None:
    card = registry.harness("langgraph").model_copy(update={"distribution": "not-installed-anywhere"})
    with pytest.raises(PluginError, match="'not-installed-anywhere'"):
        environments.find(card)

"""What is said of factories that cannot be run: beforehand where the source shows it, else by the status."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import Any

import pytest

from atp import registry
from atp.engine.own_agents import own_agent_card
from atp.protocol.cards import HarnessCard
from atp.protocol.errors import AtpError, InvalidInput, NotReady, PluginError, UnknownName
from atp.store.store import Store
from atp.worker.factories import own_agent
from tests.atp.engine.experiments import Lab

AGENT = "from agents import Agent\nfrom atp.protocol.own_agents import AgentParts\n\n"


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])  # loading a module in this process adds to it
    return tmp_path


def card(text: str, path: str = "mine:build", sdk: str | None = None) -> HarnessCard:
    Path("mine.py").write_text(text, encoding="utf-8")
    return own_agent_card(path, sdk, registry.harnesses())


@pytest.mark.parametrize(
    ("text", "sdk"),
    [
        ("from agents import Agent\ndef build(parts) -> Agent: ...", "openai-agents"),
        ("import agents\ndef build(parts) -> agents.Agent[None]: ...", "openai-agents"),
        ("import agents as a\nasync def build(parts) -> 'a.Agent[None]': ...", "openai-agents"),
        ("from smolagents import CodeAgent\ndef build(parts, more=1) -> CodeAgent: ...", "smolagents"),
        ("def build(*parts) -> 'Pregel': \n  from langgraph.pregel import Pregel", "langgraph"),
    ],
)
def test_the_declared_return_type_tells_the_sdk(text: str, sdk: str) -> None:
    found = card(text)
    assert found.factory is not None
    assert (found.name, found.factory.sdk) == ("mine:build", sdk)
    [built_in] = [each for each in registry.harnesses().values() if each.name == sdk]
    assert (found.package, found.runner, found.instrument) == (
        built_in.package,
        built_in.runner,
        built_in.instrument,
    )


def test_the_sdk_that_is_named_counts() -> None:
    factory = card("build = lambda parts: None", sdk="smolagents").factory
    assert factory is not None and factory.sdk == "smolagents"


@pytest.mark.parametrize(
    ("path", "text", "kind", "says"),
    [
        ("nowhere:build", "", UnknownName, "there is no module 'nowhere' on the Python path or in "),
        ("mine.sub:build", "", UnknownName, "there is no module 'mine.sub' in mine"),
        ("mine:biuld", "def build(parts): ...", UnknownName, r"defines no 'biuld' .*build"),
        ("mine:", "", InvalidInput, "'mine:' is not of the form module:factory"),
        ("mi-ne:build", "", InvalidInput, "'mi-ne:build' is not of the form module:factory"),
        ("mine:build", "def build(parts)", PluginError, "mine.py is no Python source"),
        ("mine:build", "def build(): ...", InvalidInput, r"has to take one argument.*not \(\)"),
        ("mine:build", "def build(a, b): ...", InvalidInput, r"not \(a, b\)"),
        ("mine:build", "def build(a, *, b): ...", InvalidInput, r"not \(a, \*, b\)"),
        ("mine:build", "def build(parts): ...", InvalidInput, "declares no return type.*harness.sdk=NAME"),
        ("mine:build", "def build(parts) -> int: ...", InvalidInput, "returns 'int', which does not tell"),
        (
            "mine:build",
            "from agents import Agent\nfrom smolagents import Tool\ndef build(parts) -> Agent | Tool: ...",
            InvalidInput,
            "does not tell the SDK",
        ),
        ("math:build", "", PluginError, "no source file|there is no module"),
    ],
)
def test_what_the_source_shows_is_said_before_anything_runs(
    path: str, text: str, kind: type[AtpError], says: str
) -> None:
    with pytest.raises((kind, UnknownName), match=says):
        card(text, path)


def test_an_sdk_that_nothing_serves_is_refused_with_the_nearest() -> None:
    with pytest.raises(
        InvalidInput, match=r"harness.sdk=smolagent: .*nearest: smolagents.*langgraph, openai-agents"
    ):
        card("def build(parts): ...", sdk="smolagent")


def test_no_line_of_the_users_is_run_by_the_engine() -> None:
    Path("pack").mkdir()
    Path("pack/__init__.py").write_text("raise SystemExit('was imported')", encoding="utf-8")
    source = "from agents import Agent\ndef build(parts) -> Agent: ...\nraise SystemExit('was imported')\n"
    Path("pack/mine.py").write_text(source, encoding="utf-8")
    factory = own_agent_card("pack.mine:build", None, registry.harnesses()).factory
    assert factory is not None
    assert factory.file == str(Path("pack/mine.py").resolve())
    assert "pack" not in sys.modules


@pytest.mark.parametrize(
    ("name", "body", "says"),
    [
        ("raises", "raise ValueError('not today')", "raised ValueError: not today"),
        ("gives_text", "return 'an agent'", "gave back a str, not an Agent"),
        ("lacks", "...\nimport nothing_of_that_name", "raised ModuleNotFoundError"),
        ("lets_it", "return Agent(name='a', tools=list(parts.tools))", "asks for no model"),
    ],
)
async def test_what_only_the_worker_sees_ends_as_a_fault_in_the_set_up(
    lab: Lab, own_folder: Path, name: str, body: str, says: str
) -> None:
    source = f"{AGENT}def build(parts: AgentParts) -> Agent:\n    {body}\n"
    (own_folder / f"{name}.py").write_text(source, encoding="utf-8")
    outcome = await lab.run(harness=f"{name}:build", workers=0, count=2, retries=1)
    for attempt in outcome["attempts"]:
        assert (attempt["status"], attempt["stop_reason"]) == ("infra_error", "setup_error")
        assert (attempt["error"]["fault"], attempt["turns"], attempt["score"]) == ("user", 0, None)
        assert says in attempt["error"]["message"]
        assert attempt["try"] == 1  # it would fail again


def test_a_module_of_that_name_from_elsewhere_is_refused(own_folder: Path) -> None:
    # The engine's path lacks what the worker's has: an installed package is found first there.
    (own_folder / "mine_too.py").write_text(AGENT + "def build(parts) -> Agent: ...", encoding="utf-8")
    planned = own_agent_card("mine_too:build", None, registry.harnesses())
    assert planned.factory is not None
    other = own_folder / "other"
    other.mkdir()
    (other / "mine_too.py").write_text("def build(parts): ...", encoding="utf-8")
    sys.path.insert(0, str(other))
    try:
        with pytest.raises(PluginError, match="is found before .*mine_too.py; rename yours"):
            own_agent(planned.factory)
    finally:
        del sys.modules["mine_too"]


async def test_the_source_is_frozen_into_the_experiment(lab: Lab, own_folder: Path) -> None:
    source = AGENT + "def build(parts: AgentParts) -> Agent:\n    raise ValueError\n"
    (own_folder / "mine.py").write_text(source, encoding="utf-8")
    await lab.run(
        harness="mine:build", python=Path(sys.executable), count=1
    )  # a process: `mine` is new to it
    with Store.open(lab.url, readonly=True) as store:
        experiment = store.experiment()
    [cell] = experiment.definition["cells"]
    sha256 = hashlib.sha256(source.encode()).hexdigest()
    assert cell["factory"] == {"path": "mine:build", "sha256": sha256}
    assert cell["sdk"].keys() == {"openai-agents", "agent-task-protocol"}


async def test_an_experiment_is_not_resumed_with_another_source(lab: Lab, own_folder: Path) -> None:
    source = AGENT + "def build(parts: AgentParts) -> Agent:\n    raise ValueError\n"
    (own_folder / "changes.py").write_text(source, encoding="utf-8")
    await lab.run(harness="changes:build", workers=0, count=1)
    (own_folder / "changes.py").write_text(source + "# otherwise\n", encoding="utf-8")
    with pytest.raises(NotReady, match=r"cells.0.factory.sha256: was '"):
        await lab.resume(workers=0)


def test_a_module_that_changed_after_it_was_planned_is_refused(own_folder: Path) -> None:
    file = own_folder / "edited.py"
    file.write_text(AGENT + "def build(parts) -> Agent: ...\n", encoding="utf-8")
    planned = own_agent_card("edited:build", None, registry.harnesses()).factory
    assert planned is not None
    file.write_text(AGENT + "def build(parts) -> Agent: ...\n# edited\n", encoding="utf-8")
    with pytest.raises(PluginError, match="edited.py has changed since the experiment was planned"):
        own_agent(planned)


async def test_an_option_that_its_sdk_does_not_have_is_refused(lab: Lab, own_folder: Path) -> None:
    (own_folder / "mine.py").write_text(AGENT + "def build(parts) -> Agent: ...", encoding="utf-8")
    options: dict[str, Any] = {"harness_options": {"steam": "true"}, "python": Path(sys.executable)}
    with pytest.raises(InvalidInput, match="'mine:build' has no option 'steam'.*stream"):
        await lab.run(harness="mine:build", **options)

"""Adapters are found by entry points; what is broken is named, what is missing says its command."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from atp import registry
from atp.protocol.benchmark import Benchmark
from atp.protocol.errors import InvalidInput, PluginError, UnknownName
from atp.protocol.model import Dialect

Installed = Callable[..., Path]


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Installed:
    """Put a distribution on the path: a name, its module's source, and its entry points by group."""

    def install(name: str, source: str, **groups: str) -> Path:
        folder = tmp_path / name
        information = folder / f"{name}-1.0.dist-info"
        information.mkdir(parents=True)
        (information / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8"
        )
        lines = [f"[atp.{group}]\n{line}" for group, line in groups.items()]
        (information / "entry_points.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
        (folder / f"{name}.py").write_text(source, encoding="utf-8")
        monkeypatch.syspath_prepend(str(folder))
        return folder

    return install


def test_a_distribution_that_is_only_on_the_path_brings_its_adapters() -> None:
    assert "ledger" in registry.benchmarks()
    assert "thinloop" in registry.harnesses()


def test_the_built_in_adapters_come_through_the_same_door() -> None:
    assert "humaneval" in registry.benchmarks()
    assert "langgraph" in registry.harnesses()


def test_an_unknown_benchmark_is_answered_with_the_nearest() -> None:
    with pytest.raises(UnknownName, match=r"no benchmark is called 'legder' \(nearest: ledger\)"):
        registry.benchmark("legder")


def test_an_unknown_harness_is_answered_with_the_nearest() -> None:
    with pytest.raises(UnknownName, match=r"no harness is called 'thinlop' \(nearest: thinloop\)"):
        registry.harness("thinlop")


def test_a_plugin_that_raises_is_named_with_its_distribution_and_cause(installed: Installed) -> None:
    installed(
        "atp_broken_plugin", "raise RuntimeError('no licence')", benchmarks="broken = atp_broken_plugin:B"
    )
    expected = (
        r"benchmark 'broken' \(atp_broken_plugin:B\) of atp_broken_plugin 1.0 .*RuntimeError: no licence"
    )
    with pytest.raises(PluginError, match=expected):
        registry.benchmark("broken")
    with pytest.raises(PluginError, match=expected):
        registry.benchmarks()


def test_a_broken_plugin_stands_in_nobody_elses_way(installed: Installed) -> None:
    installed("atp_broken_too", "raise RuntimeError('no licence')", benchmarks="broken = atp_broken_too:B")
    assert registry.benchmark("ledger").card.name == "ledger"


def test_a_benchmark_that_is_none_is_refused(installed: Installed) -> None:
    installed("atp_no_benchmark", "B = 3", benchmarks="number = atp_no_benchmark:B")
    with pytest.raises(PluginError, match="is not a Benchmark class but 3"):
        registry.benchmark("number")


def test_a_harness_without_a_card_is_refused(installed: Installed) -> None:
    installed("atp_no_card", "CARD = 'card'", harnesses="text = atp_no_card:CARD")
    with pytest.raises(PluginError, match="has no HarnessCard but 'card'"):
        registry.harness("text")


def test_a_card_with_another_name_is_refused(installed: Installed) -> None:
    installed("atp_renamed", "from thinloop.card import CARD", harnesses="fatloop = atp_renamed:CARD")
    with pytest.raises(PluginError, match="calls itself 'thinloop'"):
        registry.harness("fatloop")


def test_two_adapters_of_one_name_are_refused_and_both_named(installed: Installed) -> None:
    installed("atp_second", "from thinloop.card import CARD", harnesses="thinloop = atp_second:CARD")
    with pytest.raises(PluginError) as refused:
        registry.harness("thinloop")
    assert "atp-test-plugin 0.1 (thinloop.card:CARD)" in refused.value.message
    assert "atp_second 1.0 (atp_second:CARD)" in refused.value.message


def test_a_pairing_with_all_it_needs_is_ready() -> None:
    pairing = registry.resolve("ledger", "thinloop", "scripted/oracle")
    assert pairing.ready
    assert pairing.dialect is Dialect.OPENAI_CHAT
    assert pairing.environment.python == Path(sys.executable)
    assert isinstance(pairing.benchmark, Benchmark)


def test_a_pairing_prints_as_the_command_line_promises() -> None:
    printed = registry.resolve("ledger", "thinloop", "scripted/oracle").as_json()
    assert printed["dataset"] == {"id": "ledger", "config": None, "split": None, "revision": "1"}
    assert {
        "benchmark",
        "harness",
        "model",
        "dialect",
        "instrument",
        "environment",
        "ready",
    } <= printed.keys()
    assert printed["problems"] == []


def test_what_is_missing_is_a_problem_with_its_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ATP_HOME", str(tmp_path))
    pairing = registry.resolve("humaneval", "langgraph", "openai/gpt-5.2", environ={})
    assert not pairing.ready
    commands = ("atp env create langgraph", "atp data get humaneval", "OPENAI_API_KEY")
    assert [command for command in commands if any(command in problem for problem in pairing.problems)] == [
        *commands
    ]
    assert pairing.environment.command == "atp env create langgraph"


def test_a_server_of_ones_own_needs_no_key() -> None:
    assert registry.resolve(
        "ledger", "thinloop", "openai/local", base_url="http://127.0.0.1:1/v1", environ={}
    ).ready


def test_a_model_that_no_dialect_reaches_is_a_problem() -> None:
    pairing = registry.resolve("ledger", "thinloop", "anthropic/claude", environ={"ANTHROPIC_API_KEY": "k"})
    assert pairing.dialect is None
    assert any(
        "speaks openai-chat" in problem and "anthropic-messages" in problem for problem in pairing.problems
    )


def test_a_harness_of_several_dialects_speaks_the_one_it_is_told_to() -> None:
    def dialect(**options: str) -> Dialect | None:
        return registry.resolve("ledger", "openai-agents", "scripted/oracle", harness_options=options).dialect

    assert dialect() is Dialect.OPENAI_CHAT
    assert dialect(dialect="openai-responses") is Dialect.OPENAI_RESPONSES
    with pytest.raises(InvalidInput, match="speaks openai-chat, openai-responses"):
        dialect(dialect="gemini")


def test_an_unknown_option_of_the_harness_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"no option 'prnt' \(nearest: print"):
        registry.resolve("ledger", "thinloop", "scripted/oracle", harness_options={"prnt": "x"})


def test_an_unknown_option_of_the_benchmark_is_refused() -> None:
    with pytest.raises(InvalidInput, match="no option 'sede'"):
        registry.benchmark("ledger", {"sede": "1"})


def test_a_file_of_tasks_is_a_benchmark(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_text(
        '{"task_id": "a", "instruction": "Say yes.", "expected": {"outputs": ["yes"]}}\n', "utf-8"
    )
    pairing = registry.resolve(f"file:{path}", "thinloop", "scripted/oracle")
    assert pairing.ready
    assert pairing.benchmark_name == f"file:{path}"


def test_looking_around_imports_no_sdk() -> None:
    code = """
import sys
from atp import registry
registry.benchmarks(), registry.harnesses()
registry.resolve("humaneval", "langgraph", "scripted/oracle")
sdks = {"agents", "langchain", "langchain_core", "langgraph", "openai"}
print(sorted(sdks & set(sys.modules)))
"""
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ
    )
    assert run.stdout == "[]\n"


def test_a_benchmark_whose_user_is_a_model_is_not_run_with_a_real_model_and_a_scripted_user() -> None:
    environ = {"OPENAI_API_KEY": "k"}
    real = registry.resolve("tau3-airline", "thinloop", "openai/gpt-5.2", environ=environ)
    assert [problem for problem in real.problems if "needs a user played by a model" in problem]
    scripted = registry.resolve("tau3-airline", "thinloop", "scripted/oracle", environ=environ)
    assert not [problem for problem in scripted.problems if "played by a model" in problem]

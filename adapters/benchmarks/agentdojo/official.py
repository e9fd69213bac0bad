"""The package, as this adapter uses it. Only the benchmark's worker makes one of these."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from adapters.benchmarks.agentdojo.card import PACKAGE_VERSION, VERSION
from adapters.benchmarks.agentdojo.choice import Place
from atp.protocol.environment import ToolSpec
from atp.protocol.errors import BenchmarkError


@dataclass(frozen=True, slots=True)
class Response:
    """What a tool call gave, by the official executor."""

    content: str
    error: str | None
    """In place of the content, the official models are given this."""


class Official:
    """Suites, tools and attack of the package.

    Args:
        model_name: How the attack addresses the model.

    Raises:
        BenchmarkError: Another version of the package is installed.
    """

    def __init__(self, model_name: str) -> None:
        from importlib.metadata import version

        from agentdojo.agent_pipeline.agent_pipeline import load_system_message
        from agentdojo.agent_pipeline.tool_execution import ToolsExecutor
        from agentdojo.task_suite.load_suites import get_suites

        if version("agentdojo") != PACKAGE_VERSION:
            raise BenchmarkError(f"agentdojo is {version('agentdojo')} here, not {PACKAGE_VERSION}")
        self.suites: Mapping[str, Any] = get_suites(VERSION)
        self.system_message: str = load_system_message(None)
        self._executor = ToolsExecutor()
        self._attacks = {name: _attack(suite, model_name) for name, suite in self.suites.items()}

    def places(self, *, injected: bool) -> Sequence[Place]:
        """The user tasks, or all pairs, in the order of the package."""
        return [
            Place(name, user, injection)
            for name, suite in self.suites.items()
            for user in suite.user_tasks
            for injection in (suite.injection_tasks if injected else (None,))
        ]

    def user_task(self, place: Place) -> Any:
        """The official user task."""
        return self._one("user task", place.user, self.suite(place).user_tasks)

    def injection_task(self, place: Place) -> Any:
        """The official injection task; None where the place has none."""
        if place.injection is None:
            return None
        return self._one("injection task", place.injection, self.suite(place).injection_tasks)

    def suite(self, place: Place) -> Any:
        """The official suite."""
        return self._one("suite", place.suite, self.suites)

    def injections(self, place: Place) -> Mapping[str, str]:
        """What the attack puts where: none without an injection task."""
        if place.injection is None:
            return {}
        injections: Mapping[str, str] = self._attacks[place.suite].attack(
            self.user_task(place), self.injection_task(place)
        )
        return injections

    def environment(self, place: Place) -> Any:
        """A fresh environment, as the user task wants it, with the attack in its places.

        `load_and_inject_default_environment` of the package, but the text is parsed by libyaml: 30 ms for
        the workspace in place of 200.
        """
        import yaml
        from agentdojo.task_suite.task_suite import read_suite_file

        suite = self.suite(place)
        text = read_suite_file(suite.name, "environment.yaml", suite.data_path)
        filled = text.format(**{**suite.get_injection_vector_defaults(), **self.injections(place)})
        environment = suite.environment_type.model_validate(yaml.load(filled, yaml.CSafeLoader))
        return self.user_task(place).init_environment(environment)

    @functools.cached_property
    def tools(self) -> Mapping[str, Sequence[ToolSpec]]:
        """Suite -> its tools, as the package's own client of OpenAI declares them."""
        from agentdojo.agent_pipeline.llms.openai_llm import _function_to_openai

        return {
            name: tuple(ToolSpec(**_function_to_openai(tool)["function"]) for tool in suite.tools)
            for name, suite in self.suites.items()
        }

    def runtime(self, place: Place) -> Any:
        """The official runtime with the suite's tools."""
        from agentdojo.functions_runtime import FunctionsRuntime

        return FunctionsRuntime(self.suite(place).tools)

    def call(self, name: str, arguments: Mapping[str, Any], call_id: str | None = None) -> Any:
        """A call as the package has it. The executor changes the arguments in it: lists that came as text."""
        from agentdojo.functions_runtime import FunctionCall

        return FunctionCall(function=name, args=dict(arguments), id=call_id)

    def respond(self, runtime: Any, environment: Any, call: Any) -> Response:
        """Execute a call as the official pipeline does, and format what it gives."""
        from agentdojo.types import get_text_content_as_str

        asked = {"role": "assistant", "content": None, "tool_calls": [call]}
        *_, messages, _ = self._executor.query("", runtime, environment, [asked])
        answer = messages[-1]
        return Response(get_text_content_as_str(answer["content"]), answer["error"])

    def _one(self, what: str, name: str, known: Mapping[str, Any]) -> Any:
        if name not in known:
            raise BenchmarkError(f"agentdojo {VERSION} has no {what} {name!r}")
        return known[name]


class _Target:
    """What the attack is made against: of it, only the name is read."""

    name = "local"  # one that the package knows; the name it stands for is then replaced


def _attack(suite: Any, model_name: str) -> Any:
    from agentdojo.attacks.important_instructions_attacks import ImportantInstructionsAttack

    attack = ImportantInstructionsAttack(suite, _Target())
    attack.model_name = model_name
    return attack

"""The 97 user tasks: in the official environment, by the official rule."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import pytest

from adapters.benchmarks.agentdojo.benchmark import AgentDojo
from atp import registry
from atp.engine.virtual_environment import ask
from atp.protocol.errors import InvalidInput
from atp.protocol.task import AgentTask, TaskInput
from tests.adapters.benchmarks.agentdojo.office import Office

SHARED = pytest.mark.asyncio(loop_scope="module")

SIZES = {"workspace": (40, 14), "travel": (20, 7), "banking": (16, 9), "slack": (21, 5)}
"""User and injection tasks of each suite in v1.2.2 (agentdojo/task_suite/load_suites.py and the decorators
of agentdojo/default_suites)."""

EQUAL_ENVIRONMENTS = """
from adapters.benchmarks.agentdojo.choice import Place
from adapters.benchmarks.agentdojo.suites import SuiteBenchmark
official = SuiteBenchmark().official
for name, suite in official.suites.items():
    user, injection = list(suite.user_tasks)[-1], list(suite.injection_tasks)[-1]
    for place in (Place(name, user), Place(name, user, injection)):
        injections = dict(official.injections(place))
        assert bool(injections) == (place.injection is not None)
        assert official.environment(place) == suite.load_and_inject_default_environment(injections), place
print("equal")
"""


def test_the_package_is_not_there_to_be_imported_by_the_engine() -> None:
    # By its distribution: pytest puts folders on the path in which one of tests is called the same.
    with pytest.raises(PackageNotFoundError):
        distribution("agentdojo")


def test_there_are_97_user_tasks_in_the_order_of_the_package(agentdojo_python: Path, official: Any) -> None:
    tasks = registry.benchmark("agentdojo").load(None)
    assert [task.task_id for task in tasks] == list(official["ground_truth"])
    assert len(tasks) == 97 == sum(users for users, _ in SIZES.values())


def test_there_are_949_pairs_with_distinct_ids_and_all_is_both(agentdojo_python: Path) -> None:
    pairs = registry.benchmark("agentdojo", {"set": "injected"}).load(None)
    assert len(pairs) == 949 == sum(users * injections for users, injections in SIZES.values())
    assert len({pair.task_id for pair in pairs}) == 949
    assert pairs[0].task_id == "workspace/user_task_0/injection_task_0"


@pytest.mark.parametrize("options", [{"set": "users"}, {"sets": "user"}, {"model_name": " "}])
def test_options_that_there_are_not_are_refused(options: dict[str, str]) -> None:
    with pytest.raises(InvalidInput, match="agentdojo"):
        registry.benchmark("agentdojo", options)


def test_what_the_agent_gets_is_the_prompt_and_no_gold(agentdojo_python: Path) -> None:
    for task in registry.benchmark("agentdojo").load(None):
        given = task.for_agent()
        assert given == AgentTask(
            task_id=task.task_id, instruction=task.instruction, metadata={"suite": task.task_id.split("/")[0]}
        )


@SHARED
async def test_system_message_and_tools_are_those_of_the_package(there: Office, official: Any) -> None:
    for suite, declared in official["tools"].items():
        environment = there.benchmark.environment(there.tasks[f"{suite}/user_task_0"])
        await environment.open()
        assert environment.system_prompt == official["system_message"]
        assert [tool.model_dump(mode="json") for tool in environment.tools] == declared
        await environment.close()


@SHARED
async def test_results_and_errors_read_as_the_official_executor_writes_them(
    there: Office, official: Any
) -> None:
    for suite, calls in official["awkward"].items():
        recorded = await there.called(f"{suite}/user_task_0", calls)
        for call, expected in zip(recorded, official["responses"][suite], strict=True):
            if expected["error"] is None:
                assert (call.result, call.error) == (expected["content"], None)
            else:
                assert (call.result, call.error) == (None, expected["error"])


def test_environments_equal_those_that_the_package_loads(agentdojo_python: Path) -> None:
    assert ask(agentdojo_python, "-c", EQUAL_ENVIRONMENTS) == b"equal\n"


@SHARED
async def test_the_gold_calls_and_output_pass_all_97(there: Office, official: Any) -> None:
    grades = await there.all_played({task_id: there.gold(task_id) for task_id in there.tasks})
    assert {task_id: grade.passed for task_id, grade in grades.items()} == official["ground_truth"]
    assert all(official["ground_truth"].values())
    for grade in grades.values():
        assert (grade.score, grade.scores, grade.details["security"]) == (1.0, {"utility": 1.0}, None)


@SHARED
async def test_silence_passes_exactly_what_it_officially_does(there: Office, official: Any) -> None:
    grades = await there.all_silent(official["silent"])
    assert {task_id: grade.passed for task_id, grade in grades.items()} == official["silent"]
    floors = {task.task_id: AgentDojo().floor(task) for task in map(_named, official["silent"])}
    assert floors == {task_id: float(passes) for task_id, passes in official["silent"].items()}


def _named(task_id: str) -> TaskInput:
    return TaskInput(task_id=task_id)

"""Benchmarks that keep every rule, and for each rule one that does not."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
from ledger.benchmark import LedgerBenchmark, LedgerEnvironment
from pydantic import JsonValue

from adapters.benchmarks.humaneval.card import DATA
from atp.conformance.benchmark import check_benchmark
from atp.conformance.benchmark_checks import BENCHMARK_CHECKS
from atp.conformance.check import name_of
from atp.engine import datasets
from atp.protocol.benchmark import Benchmark
from atp.protocol.cards import BenchmarkCard
from atp.protocol.environment import Environment, ToolSpec
from atp.protocol.task import TaskInput
from atp.protocol.trace import Grade, TaskTrace


class Miscounted(LedgerBenchmark):
    card = LedgerBenchmark.card.model_copy(update={"tasks": 25})


class Unstable(LedgerBenchmark):
    seeds: ClassVar[itertools.count[int]] = itertools.count()

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        super().__init__({"seed": next(self.seeds)})


class Twins(LedgerBenchmark):
    card = LedgerBenchmark.card.model_copy(update={"tasks": 48})

    def load(self, data: Path | None) -> Sequence[TaskInput]:
        return [*super().load(data), *super().load(data)]


class Telltale(LedgerBenchmark):
    def load(self, data: Path | None) -> Sequence[TaskInput]:
        return [_telling(task) for task in super().load(data)]


def _telling(task: TaskInput) -> TaskInput:
    assert task.expected is not None
    solution = [dict(action.arguments) for action in task.expected.actions]
    return task.model_copy(update={"initial_state": {**task.initial_state, "solution": solution}})


class Misdeclared(LedgerBenchmark):
    def environment(self, task: TaskInput) -> Environment:
        environment = super().environment(task)
        wrong: JsonValue = {"type": "strange"}
        environment.tools = (
            *environment.tools,
            ToolSpec(name="odd", parameters={"type": "object", "properties": {"x": wrong}}),
        )
        return environment


class Shared(LedgerBenchmark):
    """One ledger for all attempts at a task."""

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        super().__init__(options)
        self._states: dict[str, Any] = {}

    def environment(self, task: TaskInput) -> Environment:
        environment = super().environment(task)
        assert isinstance(environment, LedgerEnvironment)
        environment.state = self._states.setdefault(task.task_id, environment.state)
        return environment


class Strict(LedgerBenchmark):
    async def grade(self, task: TaskInput, trace: TaskTrace) -> Grade:
        verdict = await super().grade(task, trace)
        return verdict.model_copy(update={"score": 0.5 * (verdict.score or 0.0)})


class Generous(LedgerBenchmark):
    async def grade(self, task: TaskInput, trace: TaskTrace) -> Grade:
        return (await super().grade(task, trace)).model_copy(update={"score": 1.0})


class Fickle(LedgerBenchmark):
    grades: ClassVar[itertools.count[int]] = itertools.count()

    async def grade(self, task: TaskInput, trace: TaskTrace) -> Grade:
        verdict = await super().grade(task, trace)
        return verdict.model_copy(update={"reason": f"grade {next(self.grades)}"})


class Nought(LedgerBenchmark):
    async def grade(self, task: TaskInput, trace: TaskTrace) -> Grade:
        if task.expected is None:
            return Grade(score=0.0, grader="ledger", grader_version="1")
        return await super().grade(task, trace)


BROKEN: Mapping[type[Benchmark], str] = {
    Miscounted: "card-complete",
    Unstable: "ids-stable",
    Twins: "ids-stable",
    Telltale: "gold-stays",
    Misdeclared: "plain-data",
    Shared: "fresh-environment",
    Strict: "oracle",
    Generous: "noop",
    Fickle: "grade-repeatable",
    Nought: "missing-score",
}


@pytest.mark.parametrize("benchmark", BROKEN, ids=lambda each: each.__name__)
async def test_a_benchmark_with_one_thing_wrong_fails_the_check_for_it(benchmark: type[Benchmark]) -> None:
    report = await check_benchmark(benchmark)
    assert BROKEN[benchmark] in {result.name for result in report.failed}, str(report)


def test_every_check_of_a_benchmark_is_seen_to_fail() -> None:
    assert set(BROKEN.values()) == {name_of(check) for check in BENCHMARK_CHECKS}


async def test_a_benchmark_that_raises_fails_the_check_with_what_it_raised() -> None:
    class Raising(LedgerBenchmark):
        def environment(self, task: TaskInput) -> Environment:
            raise RuntimeError("no world today")

    report = await check_benchmark(Raising)
    assert "plain-data: it raised RuntimeError: no world today" in str(report)


async def test_the_ledger_keeps_every_rule() -> None:
    report = await check_benchmark(LedgerBenchmark, count=6)
    assert not report.failed, str(report)
    assert len(report.results) == len(BENCHMARK_CHECKS)


async def test_humaneval_keeps_every_rule() -> None:
    await datasets.get(DATA)
    report = await check_benchmark("humaneval", count=2)
    assert not report.failed, str(report)


def test_cards_of_the_broken_ones_are_whole() -> None:
    assert all(isinstance(benchmark.card, BenchmarkCard) for benchmark in BROKEN)

"""What every benchmark keeps to, whatever harness runs it."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError

from atp.conformance.comparing import canonical, short
from atp.conformance.reference_agent import called, perfect, silent
from atp.engine.grading import grade
from atp.protocol.benchmark import Benchmark
from atp.protocol.environment import Environment, UserText
from atp.protocol.task import Expected, TaskInput
from atp.protocol.trace import Grade, TaskTrace

TELLING = 24
"""Characters from which a text of the gold is told apart from what stands in a task by chance."""


@dataclass(frozen=True, slots=True)
class BenchmarkSubject:
    """A benchmark, and what the checks look at."""

    benchmark: Benchmark
    another: Benchmark
    """Another one with the same options, which knows nothing of the first."""
    tasks: Sequence[TaskInput]
    """All of them."""
    sample: Sequence[TaskInput]
    """Those that are played and graded."""


BenchmarkCheck: TypeAlias = Callable[[BenchmarkSubject], AsyncIterator[str]]


async def card_complete(subject: BenchmarkSubject) -> AsyncIterator[str]:
    """The card says what the benchmark is, where its data are from, and by what rule it is graded; it counts
    its tasks rightly.

    Source: `BenchmarkCard`.
    """
    card = subject.benchmark.card
    for name in ("title", "description", "dataset", "revision", "license", "rule"):
        if not str(getattr(card, name)).strip():
            yield f"the card has no {name}"
    if not subject.benchmark.grader_version:
        yield "the grader has no version"
    if card.tasks != len(subject.tasks):
        yield f"the card counts {card.tasks} tasks, and there are {len(subject.tasks)}"


async def ids_stable(subject: BenchmarkSubject) -> AsyncIterator[str]:
    """Task ids are unique, and a second load gives the same tasks in the same order.

    Source: `Benchmark.load`; samples and stored experiments are kept by id.
    """
    ids = [task.task_id for task in subject.tasks]
    for task_id, times in Counter(ids).items():
        if times > 1:
            yield f"{times} tasks have the id {task_id!r}"
    again = subject.another
    for first, second in zip(subject.tasks, await asyncio.to_thread(again.load, again.data), strict=False):
        if first != second:
            yield f"{first.task_id}: another load gives another task ({second.task_id})"


async def gold_stays(subject: BenchmarkSubject) -> AsyncIterator[str]:
    """Nothing that goes to the harness's side holds gold: neither the task without its `expected`, nor the
    prompt, the tools or the user's first line.

    Source: the design's "gold is not in the harness's memory". Texts of 24 characters and more are looked
    for.
    """
    for task in subject.sample:
        shown = task.for_agent().model_dump_json()
        async with _Opened(subject.benchmark, task) as environment:
            told = [
                shown,
                environment.system_prompt or "",
                *(tool.model_dump_json() for tool in environment.tools),
            ]
            if environment.user is not None:
                told.append((await environment.user.open()).model_dump_json())
        for gold in _gold_texts(task.expected):
            if any(gold in text or json.dumps(gold)[1:-1] in text for text in told):
                yield f"{task.task_id}: {short(gold)} is shown to the agent"


async def plain_data(subject: BenchmarkSubject) -> AsyncIterator[str]:
    """Tasks survive storage; prompts are text, tools have unique names and valid JSON Schemas of objects.

    Source: `TaskInput`, `ToolSpec`; schemas by JSON Schema 2020-12.
    """
    for task in subject.sample:
        if TaskInput.model_validate_json(task.model_dump_json()) != task:
            yield f"{task.task_id}: is another task when it is read back from JSON"
        async with _Opened(subject.benchmark, task) as environment:
            for problem in _declaration_problems(environment):
                yield f"{task.task_id}: {problem}"


async def fresh_environment(subject: BenchmarkSubject) -> AsyncIterator[str]:
    """Every attempt gets a world of its own: what is done in one is not seen in another.

    Source: `Environment`. The gold actions are made in one world, then in another that was opened before.
    """
    for task in subject.sample:
        if task.expected is None:
            continue
        async with _Opened(subject.benchmark, task) as one, _Opened(subject.benchmark, task) as other:
            if one is other:
                yield f"{task.task_id}: two attempts get the same environment"
                continue
            if _declared(one) != _declared(other):
                yield f"{task.task_id}: two environments differ in prompt or tools"
            if not subject.benchmark.card.user_model and await _first_line(one) != await _first_line(other):
                yield f"{task.task_id}: two users open with different lines"
            for mine, theirs in zip(
                await called(one, task.expected.actions),
                await called(other, task.expected.actions),
                strict=True,
            ):
                if (canonical(mine.result), mine.error) != (canonical(theirs.result), theirs.error):
                    yield f"{task.task_id}: {mine.name} gives another result once the other world has had it"


async def oracle(subject: BenchmarkSubject) -> AsyncIterator[str]:
    """Who makes the expected calls and says the expected outputs gets the full score.

    Source: `Expected`.
    """
    for task in subject.sample:
        if task.expected is None:
            continue
        verdict = await _verdict(subject, task, perfect)
        if verdict.score != 1.0:
            yield f"{task.task_id}: scores {verdict.score} ({short(verdict.reason)})"


async def noop(subject: BenchmarkSubject) -> AsyncIterator[str]:
    """Who says an empty sentence and calls nothing gets what the official rule gives for that, item by item.

    Source: `Benchmark.floor`.
    """
    for task in subject.sample:
        verdict = await _verdict(subject, task, silent)
        floor = await asyncio.to_thread(subject.benchmark.floor, task)
        if verdict.score != floor:
            yield f"{task.task_id}: scores {verdict.score}, its floor is {floor} ({short(verdict.reason)})"


async def grade_repeatable(subject: BenchmarkSubject) -> AsyncIterator[str]:
    """A run that was stored and read back, graded by a new benchmark, gets the same grade.

    Source: `Benchmark.grade`: "now or on a stored run long after".
    """
    for task in subject.sample:
        trace = await silent(subject.benchmark, task)
        stored = TaskTrace.model_validate_json(trace.model_dump_json())
        first, again = await grade(subject.benchmark, task, trace), await grade(subject.another, task, stored)
        if first != again:
            yield f"{task.task_id}: {short(first)}, and then {short(again)}"


async def missing_score(subject: BenchmarkSubject) -> AsyncIterator[str]:
    """What cannot be graded has no score, with a reason; it is never a 0.

    Source: the design's "score or missing with reason". A perfect run is graded without the task's gold; a
    grader that does not need it there gives the full score all the same.
    """
    for task in [task for task in subject.sample if task.expected is not None][:1]:
        trace = await perfect(subject.benchmark, task)
        verdict = await grade(subject.benchmark, task.model_copy(update={"expected": None}), trace)
        if verdict.score not in (None, 1.0):
            yield f"{task.task_id}: a perfect run scores {verdict.score} without any gold"
        elif verdict.score is None and not verdict.reason:
            yield f"{task.task_id}: has no score, and no reason for that"


BENCHMARK_CHECKS: tuple[BenchmarkCheck, ...] = (
    card_complete,
    ids_stable,
    gold_stays,
    plain_data,
    fresh_environment,
    oracle,
    noop,
    grade_repeatable,
    missing_score,
)


class _Opened:
    """A world that is open for as long as it is looked at."""

    def __init__(self, benchmark: Benchmark, task: TaskInput) -> None:
        self._environment = benchmark.environment(task)

    async def __aenter__(self) -> Environment:
        try:
            await self._environment.open()
        except BaseException:
            await self._environment.close()
            raise
        return self._environment

    async def __aexit__(self, *_: object) -> None:
        await self._environment.close()


async def _verdict(
    subject: BenchmarkSubject, task: TaskInput, play: Callable[[Benchmark, TaskInput], Awaitable[TaskTrace]]
) -> Grade:
    return await grade(subject.benchmark, task, await play(subject.benchmark, task))


def _gold_texts(expected: Expected | None) -> Iterator[str]:
    if expected is None:
        return
    arguments = [dict(action.arguments) for action in expected.actions]
    texts = [json.dumps(each, separators=pair) for each in arguments for pair in ((",", ":"), (", ", ": "))]
    yield from (text for text in (*texts, *expected.outputs) if len(text) >= TELLING)


def _declaration_problems(environment: Environment) -> Iterator[str]:
    prompt: object = environment.system_prompt
    if not isinstance(prompt, str | None):
        yield f"the system prompt is {type(prompt).__name__}, not text"
    for name, times in Counter(tool.name for tool in environment.tools).items():
        if times > 1:
            yield f"{times} tools are called {name!r}"
    for tool in environment.tools:
        try:
            Draft202012Validator.check_schema(json.loads(json.dumps(tool.parameters)))
        except SchemaError as error:
            yield f"tool {tool.name!r}: {error.message}"
        except (TypeError, ValueError) as error:
            yield f"tool {tool.name!r}: its schema is not plain data: {error}"
        if tool.parameters.get("type") != "object":
            yield f"tool {tool.name!r}: its schema is not that of an object"


def _declared(environment: Environment) -> tuple[str | None, Sequence[Mapping[str, Any]]]:
    return environment.system_prompt, [tool.model_dump() for tool in environment.tools]


async def _first_line(environment: Environment) -> str | None:
    turn = await environment.user.open() if environment.user is not None else None
    return turn.text if isinstance(turn, UserText) else None

"""The test benchmark itself: deterministic tasks, stateful tools, a user of two turns, a strict grade."""

from __future__ import annotations

from datetime import UTC, datetime

import jsonschema
import pytest
from ledger.benchmark import LedgerBenchmark
from ledger.tools import TOOLS

from atp.protocol.environment import UserStop, UserText
from atp.protocol.errors import ToolFailed
from atp.protocol.task import TaskInput
from atp.protocol.trace import CallIdSource, TaskTrace, ToolCall

NOW = datetime(2026, 1, 1, tzinfo=UTC)
EUR_5 = {"cents": 500, "currency": "EUR"}


def _call(name: str, arguments: object, error: str | None = None) -> ToolCall:
    return ToolCall.model_validate(
        {
            "id": "c",
            "id_source": CallIdSource.MODEL,
            "name": name,
            "arguments": arguments,
            "error": error,
            "start": NOW,
            "end": NOW,
            "span_id": "0" * 16,
        }
    )


def _gold(task: TaskInput) -> TaskTrace:
    assert task.expected is not None
    return TaskTrace(
        final_answer="\n".join(task.expected.outputs),
        tool_calls=tuple(_call(action.name, action.arguments) for action in task.expected.actions),
    )


def test_the_same_seed_gives_the_same_tasks_and_another_seed_others() -> None:
    assert LedgerBenchmark().load(None) == LedgerBenchmark({"seed": "7"}).load(None)
    assert LedgerBenchmark().load(None) != LedgerBenchmark({"seed": "8"}).load(None)


def test_half_of_the_tasks_are_dialogues() -> None:
    tasks = LedgerBenchmark().load(None)
    users = [LedgerBenchmark().environment(task).user is not None for task in tasks]
    assert users.count(True) == len(tasks) / 2 == 12
    assert [not task.instruction for task in tasks] == users


def test_the_gold_actions_satisfy_the_schemas() -> None:
    parameters = {tool.name: tool.parameters for tool in TOOLS}
    for task in LedgerBenchmark().load(None):
        assert task.expected is not None
        for action in task.expected.actions:
            jsonschema.validate(dict(action.arguments), dict(parameters[action.name]))


async def test_the_gold_solution_passes_every_task_when_it_is_really_executed() -> None:
    benchmark = LedgerBenchmark()
    for task in benchmark.load(None):
        assert task.expected is not None
        environment = benchmark.environment(task)
        results = [await environment.execute(a.name, dict(a.arguments)) for a in task.expected.actions]
        assert str(results[-1]) == task.expected.outputs[0]
        assert (await benchmark.grade(task, _gold(task))).score == 1.0


async def test_doing_nothing_passes_no_task() -> None:
    benchmark = LedgerBenchmark()
    for task in benchmark.load(None):
        assert (await benchmark.grade(task, TaskTrace(final_answer="Sorry, no."))).score == 0.0


async def test_a_call_left_out_fails_and_a_call_that_failed_does_not_count() -> None:
    benchmark = LedgerBenchmark()
    task = benchmark.load(None)[0]
    gold = _gold(task)
    left_out = gold.model_copy(update={"tool_calls": gold.tool_calls[:-2]})
    assert (await benchmark.grade(task, left_out)).score == 0.0
    failed = _call("deposit", {"account": "acc-99", "amount": EUR_5}, error="there is no account")
    assert (
        await benchmark.grade(task, gold.model_copy(update={"tool_calls": (failed, *gold.tool_calls)}))
    ).passed


async def test_an_output_said_in_an_earlier_turn_counts() -> None:
    benchmark = LedgerBenchmark()
    task = benchmark.load(None)[1]
    gold = _gold(task)
    said = gold.model_copy(update={"replies": (gold.final_answer, "Bye."), "final_answer": "Bye."})
    assert (await benchmark.grade(task, said)).passed


async def test_attempts_do_not_share_a_ledger() -> None:
    benchmark = LedgerBenchmark()
    task = benchmark.load(None)[0]
    first, second = benchmark.environment(task), benchmark.environment(task)
    await first.execute("open_account", {"owner": {"name": "Ada"}, "currency": "EUR"})
    with pytest.raises(ToolFailed, match="there is no account 'acc-3'"):
        await second.execute("balance", {"account": "acc-3"})


async def test_the_ledger_refuses_in_words_for_the_model() -> None:
    benchmark = LedgerBenchmark()
    environment = benchmark.environment(benchmark.load(None)[0])
    opened = {"owner": {"name": "Ada"}, "currency": "EUR", "deposit": EUR_5}
    await environment.execute("open_account", opened)
    for name, arguments, says in (
        ("close", {"account": "acc-3"}, "still holds 500 cents"),
        ("deposit", {"account": "acc-3", "amount": {"cents": 1, "currency": "USD"}}, "kept in EUR"),
        (
            "transfer",
            {"source": "acc-3", "target": "acc-1", "amount": EUR_5 | {"cents": 501}},
            "less than 501",
        ),
        ("fail", {"message": "as asked"}, "as asked"),
    ):
        with pytest.raises(ToolFailed, match=says):
            await environment.execute(name, arguments)


async def test_a_statement_is_as_long_as_asked() -> None:
    benchmark = LedgerBenchmark()
    environment = benchmark.environment(benchmark.load(None)[0])
    statement = await environment.execute("statement", {"characters": 10_000_003})
    assert isinstance(statement, str)
    assert len(statement) == 10_000_003


async def test_the_user_says_two_lines_and_stops() -> None:
    benchmark = LedgerBenchmark()
    user = benchmark.environment(benchmark.load(None)[1]).user
    assert user is not None
    assert isinstance(await user.open(), UserText)
    assert isinstance(await user.reply("Done."), UserText)
    assert isinstance(await user.reply("Done."), UserStop)

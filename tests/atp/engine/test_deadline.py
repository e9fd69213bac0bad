"""The deadline: a clock that stands still while somebody else is at work."""

from __future__ import annotations

import asyncio

from atp.engine.deadline import Deadline
from tests.atp.engine.experiments import until


async def test_it_passes_once() -> None:
    passed: list[bool] = []
    Deadline(0.01, lambda: passed.append(True)).start()
    await until(lambda: passed)
    assert passed == [True]


async def test_held_it_does_not_pass_and_runs_on_afterwards() -> None:
    passed: list[bool] = []
    deadline = Deadline(0.05, lambda: passed.append(True))
    deadline.start()
    with deadline.held():
        await asyncio.sleep(0.2)
        assert passed == []
    await until(lambda: passed)


async def test_one_that_does_not_run_is_not_started_by_being_held() -> None:
    passed: list[bool] = []
    deadline = Deadline(0.0, lambda: passed.append(True))
    with deadline.held():
        pass
    await asyncio.sleep(0.02)
    assert passed == []


async def test_ended_while_held_it_never_runs_again() -> None:
    passed: list[bool] = []
    deadline = Deadline(0.01, lambda: passed.append(True))
    deadline.start()
    with deadline.held():
        deadline.end()
    await asyncio.sleep(0.05)
    assert passed == []


async def test_without_seconds_there_is_none() -> None:
    deadline = Deadline(None, lambda: None)
    deadline.start()
    with deadline.held():
        pass
    deadline.end()

"""The worker's side of a benchmark that lives here: its environments, its users and its grader.

What the engine asks for is described in `atp.worker.messages`. Requests are begun in the order in which
they come, and run at once; code that blocks is for the benchmark to put into a thread.
"""

from __future__ import annotations

import asyncio
import sys
import traceback
from collections.abc import Mapping
from typing import Any

from atp.protocol.benchmark import Benchmark
from atp.protocol.environment import Environment
from atp.protocol.errors import AtpError, BenchmarkError, ToolFailed
from atp.protocol.task import TaskInput
from atp.protocol.trace import TaskTrace
from atp.worker.frames import Lane
from atp.worker.link import Link, Message
from atp.worker.loading import load
from atp.worker.messages import BENCHMARK_REQUESTS, Failure


class BenchmarkHost:
    """One benchmark, and any number of its environments.

    Args:
        link: Where answers go.
    """

    def __init__(self, link: Link) -> None:
        self._link = link
        self._benchmark: Benchmark | None = None
        self._environments: dict[str, Environment] = {}
        self._at_work: dict[str, set[asyncio.Task[None]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def received(self, message: Message) -> None:
        """Begin to answer a request, one of `BENCHMARK_REQUESTS`."""
        task = asyncio.create_task(self._answer(message))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if message["type"] != "close" and (name := message.get("environment")) is not None:
            working = self._at_work.setdefault(name, set())
            working.add(task)
            task.add_done_callback(working.discard)

    def lost(self) -> None:
        """The engine is gone: stop."""
        for task in self._tasks:
            task.cancel()

    async def _answer(self, message: Message) -> None:
        assert message["type"] in BENCHMARK_REQUESTS
        try:
            answer = await getattr(self, f"_{message['type']}")(message)
            self._link.reply(Lane.CALL, message, {"failure": None, **answer})
        except Exception as error:  # noqa: BLE001  whatever the package raised, or gave back that is no plain data
            if not isinstance(error, AtpError):
                traceback.print_exception(error, file=sys.stderr)  # into the worker's log
            self._link.reply(Lane.CALL, message, {"failure": Failure.of(error)})

    async def _begin(self, message: Message) -> Mapping[str, Any]:
        factory = message["factory"]
        made = await asyncio.to_thread(lambda: load(factory)(message["options"]))
        if not isinstance(made, Benchmark):
            raise BenchmarkError(f"{factory} gave back {type(made).__name__}, not a Benchmark")
        self._benchmark = made
        return {}

    async def _open(self, message: Message) -> Mapping[str, Any]:
        name = message["environment"]
        environment = self._begun().environment(TaskInput.model_validate(message["task"]))
        self._environments[name] = environment
        await environment.open()
        return {
            "system_prompt": environment.system_prompt,
            "tools": list(environment.tools),
            "has_user": environment.user is not None,
            "workspace": environment.workspace,
            "checks_arguments": environment.checks_arguments,
        }

    async def _execute(self, message: Message) -> Mapping[str, Any]:
        environment = self._environments[message["environment"]]
        try:
            value = await environment.execute(message["name"], message["arguments"])
        except ToolFailed as error:
            return {"value": None, "error": error.message}
        return {"value": value, "error": None}

    async def _turn(self, message: Message) -> Mapping[str, Any]:
        user, text = self._environments[message["environment"]].user, message["text"]
        if user is None:
            raise BenchmarkError("the environment has no user")
        return {"turn": await (user.open() if text is None else user.reply(text))}

    async def _close(self, message: Message) -> Mapping[str, Any]:
        name = message["environment"]
        working = list(self._at_work.pop(name, ()))
        for task in working:
            task.cancel()  # its attempt has ended, nobody waits for the answer
        if working:
            await asyncio.gather(*working, return_exceptions=True)
        environment = self._environments.pop(name, None)
        if environment is not None:
            await environment.close()
        return {}

    async def _grade(self, message: Message) -> Mapping[str, Any]:
        task, trace = TaskInput.model_validate(message["task"]), TaskTrace.model_validate(message["trace"])
        return {"grade": await self._begun().grade(task, trace)}

    def _begun(self) -> Benchmark:
        if self._benchmark is None:
            raise BenchmarkError("no benchmark has been begun in this worker")
        return self._benchmark

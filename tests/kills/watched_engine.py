"""`atp`, with a pipe to its parent that tells what it is in the middle of, and a place to be killed at.

Started as `watched_engine.py PIPE PLACE COUNT TARGET DELAY ARGUMENTS...`: the COUNT-th time that PLACE is
entered, TARGET (engine, worker or both) gets SIGKILL, DELAY seconds later. What was written to the pipe
before outlives the process.
"""

from __future__ import annotations

import functools
import os
import signal
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import psutil
from sqlalchemy import Connection

from atp.cli.app import main
from atp.engine import run as run_module
from atp.engine.attempt import Attempt
from atp.engine.door import Door
from atp.engine.grading import grade
from atp.engine.worker_process import MARK
from atp.protocol.spans import SpanEnd, SpanKind
from atp.store.writer import Writer, _Item

Result = TypeVar("Result")


class Fate:
    """Writes down what happens, and kills when it is time."""

    def __init__(self, pipe: int, place: str, count: int, target: str, delay: float) -> None:
        self._pipe = pipe
        self._place = place
        self._left = count
        self._target = target
        self._delay = delay
        self._lock = threading.Lock()

    def enter(self, place: str) -> None:
        """Something begins."""
        self.say(f"+{place}")
        with self._lock:
            if place == self._place:
                self._left -= 1
            due = place == self._place and self._left == 0
        if due and self._delay:
            threading.Thread(target=self._strike, daemon=True).start()
        elif due:
            self._strike()

    def leave(self, place: str) -> None:
        """It has ended."""
        self.say(f"-{place}")

    def say(self, line: str) -> None:
        """One line to the parent, in one system call."""
        os.write(self._pipe, f"{line}\n".encode())

    def _strike(self) -> None:
        time.sleep(self._delay)
        self.say(f"kill {self._target}")
        if self._target != "engine":
            for process in psutil.Process().children():
                if MARK in process.environ():
                    process.kill()
        if self._target != "worker":
            os.kill(os.getpid(), signal.SIGKILL)


def watch(fate: Fate) -> None:
    """Let the engine say when it is in a tool, in a grader, in a commit, and what it has acknowledged."""
    _replace(Door, "call", _around(fate, "tool", Door.call))
    _replace(run_module, "grade", _around(fate, "grading", grade))
    span_ended, write, settle = Attempt.span_ended, Writer._write, Writer._settle

    def ended(attempt: Attempt, record: SpanEnd) -> None:
        span_ended(attempt, record)
        if record.start.kind is SpanKind.MODEL:
            fate.enter("model")
            fate.leave("model")

    def written(writer: Writer, connection: Connection, items: Sequence[_Item]) -> None:
        fate.enter("commit")
        write(writer, connection, items)
        fate.leave("commit")

    def settled(writer: Writer, items: Sequence[_Item]) -> None:
        ends = [
            end.start.span_id
            for item in items
            if item.error is None and item.operation is not None
            for end in item.operation.ends
        ]
        if ends:
            fate.say("acknowledged " + " ".join(ends))
        settle(writer, items)

    _replace(Attempt, "span_ended", ended)
    _replace(Writer, "_write", written)
    _replace(Writer, "_settle", settled)


def _replace(owner: Any, name: str, function: Callable[..., Any]) -> None:
    assert hasattr(owner, name)  # else nothing would be watched
    setattr(owner, name, function)


def _around(
    fate: Fate, place: str, function: Callable[..., Awaitable[Result]]
) -> Callable[..., Awaitable[Result]]:
    @functools.wraps(function)
    async def watched(*args: Any) -> Result:
        fate.enter(place)
        try:
            return await function(*args)
        finally:
            fate.leave(place)

    return watched


if __name__ == "__main__":
    pipe, place, count, target, delay = sys.argv[1:6]
    watch(Fate(int(pipe), place, int(count), target, float(delay)))
    sys.argv = ["atp", *sys.argv[6:]]
    main()

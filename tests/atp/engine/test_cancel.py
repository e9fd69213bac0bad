"""Cancelling one attempt: wherever it is, it ends as `cancelled`, does nothing more, and harms no other."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from ledger.benchmark import LedgerEnvironment

from atp.engine.attempt import Attempt
from atp.engine.home import home
from atp.engine.run import Run
from atp.models.scripted.wire_log import read_wire_log
from atp.protocol.environment import Environment
from atp.protocol.spans import Span, SpanKind, SpanStatus
from atp.worker.link import Message
from tests.atp.engine.experiments import Lab, until
from tests.atp.engine.test_faults import own_workers

IN_MODEL, IN_TOOL, BETWEEN, OTHER = "ledger-000", "ledger-002", "ledger-004", "ledger-006"
SCRIPT = f"""
steps:
- tool_calls: [{{name: balance, arguments: {{account: acc-1}}}}]
- text: done
tasks:
- match: {IN_MODEL}
  steps:
  - tool_calls: [{{name: balance, arguments: {{account: acc-1}}}}]
  - text: late
    faults: [{{hang: before_head, times: always}}]
- match: {IN_TOOL}
  steps:
  - tool_calls: [{{name: wait, arguments: {{seconds: 600}}}}]
  - text: late
- match: {OTHER}
  steps:
  - tool_calls: [{{name: wait, arguments: {{seconds: 3}}}}]
  - text: done
"""


class Cancelling:
    """Cancels each attempt at its place, twice, and one after its end."""

    def __init__(self, lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lab = lab
        self.at: dict[str, datetime] = {}
        """Run -> when it was cancelled."""
        self._attempts: dict[str, Attempt] = {}
        self._task: asyncio.Task[None] | None = None
        tool_call = Attempt.tool_call

        async def watched(attempt: Attempt, request: Message) -> Message:
            answer = await tool_call(attempt, request)
            if attempt._task.task_id == BETWEEN:
                self.cancel(attempt)
            return answer

        monkeypatch.setattr(Attempt, "tool_call", watched)

    def begin(self, run: Run) -> None:
        self._task = asyncio.create_task(self._cancel(run))

    async def end(self) -> None:
        assert self._task is not None
        await self._task

    def cancel(self, attempt: Attempt) -> None:
        attempt.cancel()
        attempt.cancel()
        self.at[attempt.run_id] = datetime.now().astimezone()

    async def _cancel(self, run: Run) -> None:
        def attempts() -> Mapping[str, Attempt]:
            self._attempts.update({attempt._task.task_id: attempt for attempt in run._running})
            return self._attempts

        await until(lambda: len(attempts()) == 4)
        for task, kind, count in ((IN_MODEL, SpanKind.MODEL, 2), (IN_TOOL, SpanKind.TOOL, 1)):
            attempt = attempts()[task]
            await until(partial(self._is_in, attempt.run_id, kind, count))
            self.cancel(attempt)
        ended = self.lab.watched.ended
        await until(lambda: OTHER in {trace.task_id for trace in ended})
        attempts()[OTHER].cancel()

    def _is_in(self, run_id: str, kind: SpanKind, count: int) -> bool:
        spans = [span for span in self.lab.spans(run_id) if span.kind is kind]
        return len(spans) == count and spans[-1].status is SpanStatus.OPEN


def requests(experiment: str) -> Sequence[Mapping[str, Any]]:
    """All requests that the endpoint logged."""
    return list(read_wire_log(home() / "logs" / experiment / "wire.jsonl"))


@pytest.mark.parametrize("workers", [1, 0], ids=["process worker", "in-memory link"])
@pytest.mark.parametrize("harness", ["thinloop", "langgraph", "openai-agents", "smolagents"])
async def test_a_cancelled_attempt_does_nothing_more_and_the_others_go_on(
    harness: str, workers: int, lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "script.yaml"
    script.write_text(SCRIPT, encoding="utf-8")
    cancelling = Cancelling(lab, monkeypatch)
    outcome = await lab.run(
        harness=harness,
        models=[f"scripted/file:{script}"],
        tasks=(IN_MODEL, IN_TOOL, BETWEEN, OTHER),
        workers=workers,
        on_start=cancelling.begin,
    )
    await cancelling.end()
    assert {attempt["task_id"]: attempt["status"] for attempt in outcome["attempts"]} == {
        IN_MODEL: "cancelled",
        IN_TOOL: "cancelled",
        BETWEEN: "cancelled",
        OTHER: "completed",
    }
    log = requests(outcome["experiment"])
    for attempt in outcome["attempts"]:
        if attempt["task_id"] == OTHER:
            continue
        cancelled_at = cancelling.at[attempt["run_id"]]
        spans = lab.spans(attempt["run_id"])
        assert all(span.start_ns <= cancelled_at.timestamp() * 1e9 for span in spans), attempt["task_id"]
        [root] = [span for span in spans if span.parent_id is None]
        assert root.status is SpanStatus.ABORTED
        assert SpanStatus.OPEN not in {span.status for span in spans}
        mine = [line for line in log if line["session"] == attempt["run_id"]]
        late = [line for line in log if f"/s/{attempt['run_id']}/" in line["path"] and line not in mine]
        assert not late
        assert all(datetime.fromisoformat(line["start"]) <= cancelled_at for line in mine)
        assert len(mine) == (2 if attempt["task_id"] == IN_MODEL else 1)
        _check_what_was_cut_off(attempt, spans)
    assert own_workers() == []
    assert "agent-turn" not in {thread.name for thread in threading.enumerate()}


def _check_what_was_cut_off(attempt: Mapping[str, Any], spans: Sequence[Span]) -> None:
    models = [span.status for span in spans if span.kind is SpanKind.MODEL]
    tools = [span.status for span in spans if span.kind is SpanKind.TOOL]
    [call] = attempt["tool_calls"]
    match attempt["task_id"]:
        case "ledger-000":  # in its second model call
            assert (models, tools) == ([SpanStatus.OK, SpanStatus.ABORTED], [SpanStatus.OK])
        case "ledger-002":  # in its tool
            assert (models, tools) == ([SpanStatus.OK], [SpanStatus.ABORTED])
            assert call["error"] == "the attempt ended before the tool did"
        case _:  # between the tool and the next model call
            assert (models, tools) == ([SpanStatus.OK], [SpanStatus.OK])
            assert call["error"] is None


async def test_a_cancel_ends_set_up_at_once_and_closes_the_environment(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    opening, closed = asyncio.Event(), asyncio.Event()

    async def open_forever(self: Environment) -> None:
        opening.set()
        await asyncio.Event().wait()

    async def close(self: Environment) -> None:
        closed.set()

    monkeypatch.setattr(LedgerEnvironment, "open", open_forever)
    monkeypatch.setattr(LedgerEnvironment, "close", close)

    async def interrupt(run: Run) -> None:
        await opening.wait()
        run.interrupt()
        run.interrupt()

    interrupting: list[asyncio.Task[None]] = []
    outcome = await lab.run(
        tasks=(OTHER,), on_start=lambda run: interrupting.append(asyncio.create_task(interrupt(run)))
    )
    [attempt] = outcome["attempts"]
    assert (attempt["status"], attempt["error"], attempt["elapsed"]) == ("cancelled", None, None)
    assert closed.is_set()


async def test_a_cancel_while_the_environment_closes_changes_nothing(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[Run] = []

    async def close(self: Environment) -> None:
        runs[0].interrupt()
        runs[0].interrupt()

    monkeypatch.setattr(LedgerEnvironment, "close", close)
    outcome = await lab.run(tasks=(OTHER,), on_start=runs.append)
    [attempt] = outcome["attempts"]
    assert attempt["status"] == "completed"
    # Its grade is given on resume.
    assert attempt["score"] is None
    again = await lab.resume()
    assert [(a["run_id"], a["score"]) for a in again["attempts"]] == [(attempt["run_id"], 1.0)]

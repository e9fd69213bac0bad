"""Faults: each ends in the status that is true of it, harms nobody else, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import psutil
import pytest
from ledger.benchmark import LedgerBenchmark
from thinloop.runner import ThinLoopRunner

from atp import registry
from atp.engine import attempt as attempt_module
from atp.engine import workers as workers_module
from atp.engine.run import Run
from atp.engine.worker_process import MARK
from atp.protocol.errors import SandboxUnavailable
from atp.protocol.model import Limits
from atp.protocol.spans import SpanKind, SpanStatus
from atp.protocol.status import ErrorInfo, retry_delay
from atp.protocol.task import TaskInput
from atp.protocol.trace import Grade, TaskTrace
from monitor.recorder import SpanRecorder
from tests.atp.engine.experiments import Lab, until
from tests.foreign_endpoint import ForeignEndpoint, ForeignReply, completion, replying

ONE: dict[str, Any] = {"tasks": ("ledger-000",)}
WAYS = pytest.mark.parametrize("workers", [1, 0], ids=["process worker", "in-memory link"])


def own_workers() -> list[psutil.Process]:
    """Worker processes started by this test process, and their children."""
    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            if MARK in process.environ() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.NoSuchProcess:
            continue
    return found


def only(outcome: dict[str, Any]) -> dict[str, Any]:
    [attempt] = outcome["attempts"]
    return dict(attempt)


async def test_a_worker_that_prints_and_writes_to_descriptor_1_does_not_reach_the_link(lab: Lab) -> None:
    outcome = await lab.run(
        harness_options={"print": "noise" * 1000, "write_fd1": "\x00\x00\xff" * 1000}, **ONE
    )
    assert only(outcome)["score"] == 1.0


@WAYS
async def test_a_ten_megabyte_answer_arrives_whole(lab: Lab, workers: int) -> None:
    outcome = await lab.run(harness_options={"answer_characters": "10000000"}, workers=workers, **ONE)
    assert len(only(outcome)["final_answer"]) == 10_000_000


@WAYS
async def test_a_ten_megabyte_tool_result_arrives_whole_and_is_stored_once(
    lab: Lab, workers: int, tmp_path: Path
) -> None:
    script = tmp_path / "large.yaml"
    script.write_text(
        "steps:\n- tool_calls: [{name: statement, arguments: {characters: 10000000}}]\n- text: done\n",
        encoding="utf-8",
    )
    outcome = await lab.run(models=[f"scripted/file:{script}"], workers=workers, **ONE)
    attempt = only(outcome)
    assert attempt["status"] == "completed", attempt["error"]
    [call] = attempt["tool_calls"]
    assert len(call["result"]) == 10_000_000
    folder = next(path for path in tmp_path.iterdir() if path.suffix == ".bodies")
    large = [path for path in folder.rglob("*") if path.is_file() and path.stat().st_size > 9_000_000]
    assert len(large) == len({path.name for path in large})


@WAYS
async def test_a_harness_that_exits_by_systemexit_ends_its_own_attempt_only(lab: Lab, workers: int) -> None:
    outcome = await lab.run(harness_options={"sys_exit": "0"}, count=3, workers=workers)
    assert {attempt["status"] for attempt in outcome["attempts"]} == {"infra_error"}
    assert {attempt["score"] for attempt in outcome["attempts"]} == {None}
    assert all(
        "SystemExit" in attempt["error"]["code"] or "system_exit" in attempt["error"]["code"]
        for attempt in outcome["attempts"]
    )


async def test_a_worker_that_dies_gives_no_score_and_names_its_log(lab: Lab) -> None:
    outcome = await lab.run(harness_options={"exit": "7"}, **ONE)
    attempt, [cell] = only(outcome), outcome["cells"]
    assert (attempt["status"], attempt["stop_reason"], attempt["score"]) == (
        "infra_error",
        "worker_error",
        None,
    )
    assert "exit code 7" in attempt["error"]["message"]
    assert ".log" in attempt["error"]["message"]
    assert attempt["error"]["fault"] == "infrastructure"
    assert (cell["graded"], cell["missing"], cell["mean"]) == (0, 1, None)
    [reason] = cell["missing_by_reason"]
    assert "exit code 7" in reason


async def test_a_worker_that_dies_is_tried_again_and_every_try_is_kept(lab: Lab) -> None:
    outcome = await lab.run(harness_options={"exit": "7"}, retries=2, **ONE)
    assert [attempt["try"] for attempt in outcome["attempts"]] == [1, 2, 3]
    assert outcome["cells"][0]["scheduled"] == 1


async def test_killing_one_of_two_workers_touches_only_its_attempts_and_no_acknowledged_span_is_lost(
    lab: Lab, tmp_path: Path
) -> None:
    script = tmp_path / "wait.yaml"
    script.write_text(
        "steps:\n- tool_calls: [{name: balance, arguments: {account: acc-1}}]\n"
        "- tool_calls: [{name: wait, arguments: {seconds: 4}}]\n- text: done\n",
        encoding="utf-8",
    )

    async def kill_one() -> None:
        await until(lambda: len([p for p in own_workers() if "atp.worker" in p.cmdline()]) == 2)
        await until(lambda: len(lab.open_spans(SpanKind.TOOL)) == 4)
        own_workers()[0].send_signal(signal.SIGKILL)

    killer: list[asyncio.Task[None]] = []
    outcome = await lab.run(
        models=[f"scripted/file:{script}"],
        workers=2,
        on_start=lambda run: killer.append(asyncio.create_task(kill_one())),
    )
    await killer[0]
    assert Counter(a["status"] for a in outcome["attempts"]) == {"completed": 2, "infra_error": 2}
    for attempt in outcome["attempts"]:
        spans = lab.spans(attempt["run_id"])
        balance = [s for s in spans if s.kind is SpanKind.TOOL and s.attributes["tool.name"] == "balance"]
        assert [span.status for span in balance] == [SpanStatus.OK]  # its result had been given back
        assert SpanStatus.OPEN not in {span.status for span in spans}
        if attempt["status"] == "infra_error":
            [root] = [span for span in spans if span.parent_id is None]
            assert root.status is SpanStatus.ABORTED
    assert own_workers() == []


async def test_a_child_that_left_the_session_and_ignores_sigterm_is_gone_when_its_worker_is(
    lab: Lab, tmp_path: Path
) -> None:
    pid_file = tmp_path / "pid"
    await lab.run(harness_options={"orphan": str(pid_file)}, **ONE)
    pid = int(pid_file.read_text(encoding="utf-8"))
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


@pytest.mark.parametrize("how", ["wait", "thread", "loop"])
async def test_a_hang_ends_at_the_deadline_as_limit_whatever_hangs(
    lab: Lab, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempt_module, "CANCEL_GRACE", 0.5)
    outcome = await lab.run(harness_options={"hang": how}, limits=Limits(deadline=1.0), **ONE)
    attempt = only(outcome)
    assert (attempt["status"], attempt["stop_reason"]) == ("limit", "deadline")
    assert attempt["score"] == 0.0  # graded with what it left: nothing
    assert own_workers() == []


async def test_the_hard_turn_limit_counts_model_calls(lab: Lab, tmp_path: Path) -> None:
    outcome = await lab.run(limits=Limits(max_turns=2), **ONE)
    attempt = only(outcome)
    assert (attempt["status"], attempt["stop_reason"], attempt["turns"]) == ("limit", "max_turns", 2)
    assert attempt["score"] == 0.0


async def test_an_endpoint_that_nothing_listens_at_gives_no_score_and_says_so(lab: Lab) -> None:
    outcome = await lab.run(models=["openai/x"], base_url="http://127.0.0.1:9/v1", **ONE)
    attempt = only(outcome)
    assert (attempt["status"], attempt["stop_reason"], attempt["score"]) == (
        "infra_error",
        "provider_error",
        None,
    )
    assert outcome["cells"][0]["missing"] == 1


async def test_an_endpoint_that_answers_500_gives_no_score(
    lab: Lab, foreign_endpoint: ForeignEndpoint
) -> None:
    foreign_endpoint.respond = lambda request, number: ForeignReply(
        body={"error": {"message": "down"}}, status=500
    )
    outcome = await lab.run(models=["openai/x"], base_url=foreign_endpoint.base_url, **ONE)
    assert only(outcome)["status"] == "infra_error"
    assert only(outcome)["score"] is None


async def test_a_provider_that_lets_the_deadline_pass_is_not_the_agents_fault(
    lab: Lab, foreign_endpoint: ForeignEndpoint
) -> None:
    foreign_endpoint.respond = lambda request, number: ForeignReply(hang=True)
    outcome = await lab.run(
        models=["openai/x"], base_url=foreign_endpoint.base_url, limits=Limits(deadline=1.0), **ONE
    )
    attempt = only(outcome)
    assert (attempt["status"], attempt["stop_reason"]) == ("infra_error", "provider_error")
    assert "no model call was answered before the deadline of 1 s" in attempt["error"]["message"]
    assert attempt["score"] is None


async def test_a_runner_that_gives_back_something_else_is_named(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run(*arguments: object) -> str:
        return "an answer"

    monkeypatch.setattr(ThinLoopRunner, "run", run)
    attempt = only(await lab.run(workers=0, **ONE))
    assert (attempt["status"], attempt["error"]["message"]) == (
        "agent_error",
        "thinloop.runner:ThinLoopRunner gave back str, not a TaskTrace",
    )


async def test_a_monitor_that_fails_at_the_end_does_not_leave_its_attempt_waiting(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    def close(self: SpanRecorder, error: BaseException | None = None) -> None:
        raise RuntimeError("the recorder broke")

    monkeypatch.setattr(SpanRecorder, "close", close)
    attempt = only(await lab.run(workers=0, **ONE))
    assert (attempt["status"], attempt["error"]["message"]) == ("infra_error", "the recorder broke")


async def test_a_worker_that_cannot_import_its_sdk_names_its_log(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    card = registry.harness("thinloop").model_copy(update={"preload": ("no_such_sdk",)})
    monkeypatch.setattr(registry, "harness", lambda name, options=None: card)
    attempt = only(await lab.run(**ONE))
    assert (attempt["status"], attempt["stop_reason"]) == ("infra_error", "worker_error")
    log = attempt["error"]["message"].rpartition("its log is ")[2]
    assert "No module named 'no_such_sdk'" in Path(log).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("tries", "asked", "seconds"),
    [(1, None, 0.5), (2, None, 1.0), (3, None, 2.0), (1, 7.5, 7.5), (3, 0.1, 2.0)],
)
def test_a_further_try_waits_twice_as_long_and_as_long_as_the_provider_asks(
    tries: int, asked: float | None, seconds: float
) -> None:
    assert retry_delay(tries, ErrorInfo(code="c", message="m", retry_after=asked)) == seconds


async def test_a_wrong_answer_scores_zero(lab: Lab, foreign_endpoint: ForeignEndpoint) -> None:
    foreign_endpoint.respond = lambda request, number: replying(completion(f"c-{number}", text="wrong"))
    outcome = await lab.run(models=["openai/x"], base_url=foreign_endpoint.base_url, **ONE)
    attempt = only(outcome)
    assert (attempt["status"], attempt["score"]) == ("completed", 0.0)
    assert outcome["cells"][0]["simulated"] is False


@pytest.mark.parametrize(
    ("call", "told"),
    [
        ("{name: fail, arguments: {message: the bank is closed}}", "the bank is closed"),
        ("{name: no_such_tool, arguments: {}}", "there is no tool named 'no_such_tool'"),
        (
            "{name: balance, arguments: {account: 7}}",
            "invalid arguments for balance: 7 is not of type 'string' at $.account",
        ),
        ("{name: balance, arguments: {}}", "invalid arguments for balance: 'account' is a required property"),
    ],
)
async def test_a_tool_that_fails_tells_the_model_and_the_run_goes_on(
    lab: Lab, tmp_path: Path, call: str, told: str
) -> None:
    script = tmp_path / "script.yaml"
    script.write_text(f"steps:\n- tool_calls: [{call}]\n- text: sorry\n", encoding="utf-8")
    attempt = only(await lab.run(models=[f"scripted/file:{script}"], **ONE))
    assert (attempt["status"], attempt["final_answer"]) == ("completed", "sorry")
    [made] = attempt["tool_calls"]
    assert told in made["error"]
    [span] = [span for span in lab.spans(attempt["run_id"]) if span.kind is SpanKind.TOOL]
    assert (span.status, span.error_message) == (SpanStatus.ERROR, made["error"])


@WAYS
async def test_a_tool_that_crashes_is_the_benchmarks_fault(lab: Lab, tmp_path: Path, workers: int) -> None:
    script = tmp_path / "script.yaml"
    script.write_text(
        "steps:\n- tool_calls: [{name: crash, arguments: {message: bug}}]\n- text: sorry\n", encoding="utf-8"
    )
    outcome = await lab.run(models=[f"scripted/file:{script}"], workers=workers, **ONE)
    attempt = only(outcome)
    assert (attempt["status"], attempt["score"]) == ("benchmark_error", None)
    assert attempt["error"]["fault"] == "benchmark"
    assert "RuntimeError: bug" in attempt["error"]["message"]


@pytest.mark.parametrize(
    ("error", "fault", "told"),
    [
        (ValueError("no such column"), "benchmark", "the grader raised ValueError: no such column"),
        (SandboxUnavailable("install bubblewrap"), "infrastructure", "install bubblewrap"),
    ],
)
async def test_a_grader_that_fails_gives_no_score_and_the_answer_is_graded_later_without_the_agent(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, error: Exception, fault: str, told: str
) -> None:
    grade = LedgerBenchmark.grade
    failures = [error]

    async def failing(self: LedgerBenchmark, task: TaskInput, trace: TaskTrace) -> Grade:
        if failures:
            raise failures.pop()
        return await grade(self, task, trace)

    monkeypatch.setattr(LedgerBenchmark, "grade", failing)
    outcome = await lab.run(**ONE)
    attempt, [cell] = only(outcome), outcome["cells"]
    assert (attempt["status"], attempt["score"], attempt["score_fault"]) == ("completed", None, fault)
    assert told in attempt["score_reason"]
    assert [reason for reason in cell["missing_by_reason"] if told in reason]

    again = await lab.resume()
    assert only(again)["run_id"] == attempt["run_id"]  # the same run: no agent was called
    assert only(again)["score"] == 1.0
    assert lab.watched.started == []


async def test_an_interrupt_starts_nothing_more_and_a_second_one_cancels(lab: Lab, tmp_path: Path) -> None:
    script = tmp_path / "script.yaml"
    script.write_text(
        "steps:\n- tool_calls: [{name: wait, arguments: {seconds: 60}}]\n- text: late\n", encoding="utf-8"
    )
    runs: list[Run] = []

    async def interrupt_twice() -> None:
        await until(lambda: len(lab.open_spans(SpanKind.TOOL)) == 2)
        runs[0].interrupt()
        await asyncio.sleep(0.1)
        runs[0].interrupt()

    def on_start(run: Run) -> None:
        runs.append(run)
        tasks.append(asyncio.create_task(interrupt_twice()))

    tasks: list[asyncio.Task[None]] = []
    outcome = await lab.run(models=[f"scripted/file:{script}"], count=5, concurrency=2, on_start=on_start)
    await tasks[0]
    assert Counter(attempt["status"] for attempt in outcome["attempts"]) == {"cancelled": 2}
    [cell] = outcome["cells"]
    assert (cell["scheduled"], cell["graded"], cell["missing"]) == (5, 0, 5)
    assert cell["missing_by_reason"] == {"not run": 3, "cancelled": 2}
    for attempt in outcome["attempts"]:
        [call] = attempt["tool_calls"]
        assert call["error"] == "the attempt ended before the tool did"
    assert own_workers() == []


async def test_resume_runs_the_slots_without_a_gradable_attempt_and_no_other(
    lab: Lab, tmp_path: Path
) -> None:
    runs: list[Run] = []

    async def interrupt() -> None:
        await until(lambda: len(lab.watched.grades) == 2)
        runs[0].interrupt()

    tasks: list[asyncio.Task[None]] = []

    def on_start(run: Run) -> None:
        runs.append(run)
        tasks.append(asyncio.create_task(interrupt()))

    first = await lab.run(count=8, concurrency=1, on_start=on_start)
    await tasks[0]
    done = {attempt["run_id"] for attempt in first["attempts"] if attempt["score"] is not None}
    assert 0 < len(done) < 8
    second = await lab.resume()
    [cell] = second["cells"]
    assert (cell["graded"], cell["missing"], cell["mean"]) == (8, 0, 1.0)
    assert len(second["attempts"]) == 8
    assert done < {attempt["run_id"] for attempt in second["attempts"]}


async def test_provider_keys_do_not_reach_the_workers_environment(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, foreign_endpoint: ForeignEndpoint
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary")
    seen: list[dict[str, str]] = []

    def respond(request: object, number: int) -> ForeignReply:
        seen.extend(process.environ() for process in own_workers())
        return replying(completion(f"c-{number}", text="wrong"))

    foreign_endpoint.respond = respond
    await lab.run(models=["openai/x"], base_url=foreign_endpoint.base_url, environ=dict(os.environ), **ONE)
    assert seen
    assert not [environment for environment in seen if "sk-canary" in environment.values()]
    assert foreign_endpoint.requests[0].headers["authorization"] == "Bearer sk-canary"


async def test_a_worker_whose_event_loop_stands_still_is_killed_and_gives_no_score(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers_module, "HEARTBEAT_TIMEOUT", 2.0)
    attempt = only(await lab.run(harness_options={"hang": "loop"}, **ONE))
    assert (attempt["status"], attempt["stop_reason"]) == ("infra_error", "worker_error")
    assert "gave no sign of life for 2 s" in attempt["error"]["message"]
    assert own_workers() == []

"""A grade comes from the stored run alone: its calls are replayed, and have to give what they gave."""

from __future__ import annotations

from pathlib import Path

import pytest

from adapters.benchmarks.agentdojo.grading import same
from atp.protocol.errors import BenchmarkError
from atp.protocol.trace import CUT_OFF
from tests.adapters.benchmarks.agentdojo.office import Office, office

SHARED = pytest.mark.asyncio(loop_scope="module")

EMAIL = (
    "send_email",
    {"recipients": ["a@example.com"], "subject": "Hello", "body": "On 2024-05-15 at 10:00:00.", "cc": None},
)
EVENT = (
    "create_calendar_event",
    {
        "title": "All",
        "start_time": "2024-05-20 10:00",
        "end_time": "2024-05-20 11:00",
        "participants": [f"p{number}@example.com" for number in range(12)],
    },
)
TASK = "workspace/user_task_0"


@SHARED
async def test_a_run_is_graded_in_another_process_at_another_time(there: Office, tmp_path: Path) -> None:
    """An email has the time of its sending, and a set of participants an order that hashes decide."""
    recorded = await there.called(TASK, [EMAIL, EVENT, ("get_sent_emails", {})])
    async with office(tmp_path) as another:
        grade = await another.graded(TASK, recorded, None)
    assert grade.score == 0.0


@SHARED
async def test_a_replay_that_gives_something_else_is_an_error_of_grading(there: Office) -> None:
    recorded = await there.called(TASK, [EMAIL, ("delete_email", {"email_id": "999"})])
    for at, change in enumerate(({"result": "id_: '1'"}, {"error": "ValueError: another"})):
        changed = [call.model_copy(update=change) if n == at else call for n, call in enumerate(recorded)]
        with pytest.raises(BenchmarkError, match=f"call-{at}.* gave another output when it was replayed"):
            await there.graded(TASK, changed, None)


@SHARED
async def test_a_call_that_was_cut_off_is_made_again_and_may_give_anything(there: Office) -> None:
    calls, answer = there.gold("banking/user_task_0")
    recorded = await there.called("banking/user_task_0", calls)
    cut = [*recorded[:-1], recorded[-1].model_copy(update={"result": None, "error": CUT_OFF})]
    assert (await there.graded("banking/user_task_0", cut, answer)).score == 1.0


@SHARED
async def test_calls_that_never_reached_a_tool_do_not_count(there: Office) -> None:
    calls, answer = there.gold("slack/user_task_0")
    recorded = await there.called("slack/user_task_0", calls)
    stray = recorded[0].model_copy(update={"result": None, "error": "there is no tool"})
    unknown = stray.model_copy(update={"name": "nothing_of_the_kind"})
    no_object = stray.model_copy(update={"arguments": ["general"]})
    assert (await there.graded("slack/user_task_0", [unknown, no_object, *recorded], answer)).score == 1.0


@SHARED
async def test_a_task_that_there_is_not_is_named(there: Office) -> None:
    for task_id in (
        "slack",
        "slack/user_task_99",
        "office/user_task_0",
        "slack/user_task_0/injection_task_99",
    ):
        with pytest.raises(BenchmarkError, match="agentdojo"):
            await there.graded(task_id, (), None)


CLOCK = "timestamp: 2026-11-30 19:22:56.123456"


@pytest.mark.parametrize(
    ("recorded", "replayed", "equal"),
    [
        ("a", "a", True),
        ("a", "b", False),
        (CLOCK, "timestamp: 2027-01-01 00:00:00.000001", True),
        (CLOCK, "timestamp: 2027-01-01 00:00:00", True),  # one in a million
        (f"x {CLOCK}", f"y {CLOCK}", False),
        ("start: 2024-05-15 10:00:00", "start: 2024-05-16 10:00:00", False),
        (CLOCK, f"{CLOCK} {CLOCK}", False),
    ],
)
def test_moments_of_the_clock_alone_may_differ(recorded: str, replayed: str, equal: bool) -> None:
    assert same(recorded, replayed) is equal

"""What the last model call of a run tells of the error that ended it."""

from __future__ import annotations

import json

import pytest

from atp.engine.last_reply import with_last_reply
from atp.protocol.spans import Actor, SpanEnd, SpanKind
from atp.protocol.status import ErrorInfo, Status, StopReason, classify
from monitor.recorder import SpanRecorder
from monitor.vocabulary import ACTOR, FAILED_REPLY
from tests.monitor.memory_sink import MemorySink


class ModelBehaviorError(Exception):
    """Known to the table by its base class."""


ModelBehaviorError.__module__, ModelBehaviorError.__qualname__ = "agents.exceptions", "AgentsException"


def ends(*calls: tuple[Actor, str | None]) -> list[SpanEnd]:
    """Model spans that have ended: on whose behalf, and what became of the reply."""
    sink = MemorySink()
    recorder = SpanRecorder(sink, "run-a", name="agent")
    for actor, failed in calls:
        span = recorder.start(SpanKind.MODEL, "m", attributes={ACTOR: actor})
        if failed is not None:
            span.set(FAILED_REPLY, failed)
        span.end()
    return sink.ends


def info(error: Exception) -> ErrorInfo:
    return ErrorInfo.of(error)


@pytest.mark.parametrize(
    "error",
    [json.JSONDecodeError("Expecting value", "<html>", 0), IndexError("0"), ModelBehaviorError("no choices")],
    ids=["unknown", "lookup", "the SDK's own"],
)
def test_an_unreadable_reply_is_the_providers_whatever_the_sdk_raises(error: Exception) -> None:
    told = with_last_reply(info(error), ends((Actor.AGENT, "unreadable")))
    assert told is not None
    assert classify(told).status is Status.INFRA_ERROR
    assert classify(told).stop_reason is StopReason.PROVIDER_ERROR
    assert classify(told).retry
    assert told.message.endswith(str(error))


def test_an_unreadable_reply_that_the_sdk_takes_for_an_answer_is_an_error_too() -> None:
    told = with_last_reply(None, ends((Actor.AGENT, "unreadable")))
    assert told is not None and told.code == "unreadable_reply"


def test_a_reply_that_the_sdk_does_not_take_is_the_agents() -> None:
    told = with_last_reply(info(ValueError("a list")), ends((Actor.AGENT, "refused")))
    assert told is not None and classify(told).status is Status.AGENT_ERROR


def test_what_the_table_knows_of_the_provider_stays_as_it_is() -> None:
    lost = info(ConnectionResetError("gone"))
    assert with_last_reply(lost, ends((Actor.AGENT, "unreadable"))) is lost


@pytest.mark.parametrize(
    "calls",
    [
        [(Actor.AGENT, "unreadable"), (Actor.AGENT, None)],
        [(Actor.AGENT, None), (Actor.USER_SIMULATOR, "unreadable")],
        [],
    ],
    ids=["an earlier call", "the user's call", "no call"],
)
def test_only_the_agents_last_call_counts(calls: list[tuple[Actor, str | None]]) -> None:
    error = info(RuntimeError("what is this?"))
    assert with_last_reply(error, ends(*calls)) is error
    assert with_last_reply(None, ends(*calls)) is None

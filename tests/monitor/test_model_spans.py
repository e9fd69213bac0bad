"""Model spans as the engine records them."""

from __future__ import annotations

import asyncio
import json

from atp.protocol.chat import ChatMessage
from atp.protocol.errors import ModelCallFailed
from atp.protocol.spans import Actor, ParentSource, SpanKind, SpanStatus
from atp.protocol.trace import Usage
from monitor import vocabulary as v
from monitor.instruments.openai_replies import AnnouncedCall, ChatReply
from monitor.model_spans import EngineModelCalls, EngineModelSpan

SYSTEM = ChatMessage(role="system", content="Play.")


def calls() -> EngineModelCalls:
    return EngineModelCalls("run-a", "0" * 31 + "1", Actor.USER_SIMULATOR, "openai/m")


def started(own: EngineModelCalls | None = None) -> EngineModelSpan:
    return (own or calls()).start([SYSTEM], {"temperature": 0.0}, "0" * 15 + "2")


def test_the_start_says_what_was_asked_and_for_whom() -> None:
    own = calls()
    record = started(own).record
    assert (record.kind, record.name, record.parent_id) == (SpanKind.MODEL, "openai/m", "0" * 15 + "2")
    assert record.parent_source is ParentSource.HANDLE
    assert record.attributes == {v.MODEL_NAME: "openai/m", v.ACTOR: "user_simulator", v.MODEL_STREAM: False}
    bodies = own.new_bodies()
    assert json.loads(bodies[record.bodies[v.MODEL_PARAMETERS]]) == {"temperature": 0.0}
    listed = json.loads(bodies[record.bodies[v.INPUT_MESSAGES]])
    assert [json.loads(bodies[item]) for item in listed["items"]] == [
        {"role": "system", "parts": [{"type": "text", "content": "Play."}]}
    ]


def test_a_reply_is_recorded_with_all_that_is_known_of_it() -> None:
    usage = Usage(input_tokens=5, output_tokens=2, reasoning_tokens=1)
    reply = ChatReply("r-1", "m-0613", "stop", None, "Hello.", [AnnouncedCall("c1", "buy", "{}")], usage)
    own = calls()
    end = started(own).answered(reply)
    assert end.status is SpanStatus.OK
    assert {key: end.attributes[key] for key in end.attributes.keys() - end.start.attributes.keys()} == {
        v.RESPONSE_ID: "r-1",
        v.MODEL_ANSWERED: "m-0613",
        v.FINISH_REASON: "stop",
        v.USAGE_INPUT: 5,
        v.USAGE_OUTPUT: 2,
        v.USAGE_REASONING: 1,
        v.ANNOUNCED_CALL_IDS: ["c1"],
        v.ANNOUNCED_CALL_NAMES: ["buy"],
        v.RETRIES: 0,
    }
    assert own.new_bodies().keys() >= {end.bodies[v.OUTPUT_MESSAGES]}


def test_a_list_of_messages_is_stored_as_what_came_since() -> None:
    own = calls()
    started(own)
    own.new_bodies()
    record = own.start([SYSTEM, ChatMessage(role="user", content="Hi")], {}, "0" * 15 + "2").record
    assert len(json.loads(own.new_bodies()[record.bodies[v.INPUT_MESSAGES]])["items"]) == 1


def test_bodies_are_handed_out_once() -> None:
    own = calls()
    started(own)
    assert own.new_bodies()
    assert own.new_bodies() == {}


def test_the_try_a_call_fails_with_is_no_retry() -> None:
    span = started()
    first, second = ModelCallFailed("busy", status_code=503), ModelCallFailed("gone")
    span.failed_try(first)
    span.failed_try(second)
    end = span.failed(second)
    assert (end.status, end.attributes[v.RETRIES], end.error_message) == (SpanStatus.ERROR, 1, "gone")
    assert end.error_type == "atp.protocol.errors.ModelCallFailed"
    assert [event.attributes for event in end.events] == [
        {"http.status_code": 503, "retry_count": 0},
        {"http.status_code": None, "retry_count": 1},
    ]


def test_an_answer_that_nobody_can_read_comes_after_its_retries() -> None:
    span = started()
    span.failed_try(ModelCallFailed("busy", status_code=503))
    assert span.failed(ModelCallFailed("no completion")).attributes[v.RETRIES] == 1


def test_a_call_that_is_cut_off_is_aborted() -> None:
    assert started().failed(asyncio.CancelledError()).status is SpanStatus.ABORTED


def test_characters_without_an_exact_form_are_counted() -> None:
    span = calls().start([ChatMessage(role="user", content="\ud800")], {}, "0" * 15 + "2")
    assert span.answered(ChatReply("r-1")).attributes[v.VALUES_ALTERED] == 1

"""What the span of a model call says of an answer that came to nothing."""

from __future__ import annotations

import asyncio

import pytest

from atp.protocol.spans import SpanKind
from monitor.instruments.openai_http import CopiedResponse
from monitor.instruments.openai_replies import ChatReply, read_reply
from monitor.instruments.openai_responses_replies import read_response_reply
from monitor.instruments.watched_call import copied_reply
from monitor.recorder import SpanRecorder
from monitor.vocabulary import FAILED_REPLY
from tests.monitor.memory_sink import MemorySink

WHOLE = b'{"id": "r", "choices": [{"index": 0, "message": {"content": "Hi."}, "finish_reason": "stop"}]}'
PIECE = (
    b'data: {"id": "r", "choices": [{"index": 0, "delta": {"content": "Hi."}, "finish_reason": null}]}\n\n'
)
END = b'data: {"id": "r", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}\n\n'
CREATED = b'data: {"type": "response.created", "response": {"id": "r", "output": []}}\n\n'
JSON, SSE = "application/json", "text/event-stream"
FAILED = ValueError("the SDK's")


def seen(
    content_type: str, content: bytes, error: BaseException | None, responses: bool = False
) -> tuple[ChatReply, object, int]:
    """The reply, what the span says, and how often recording failed."""
    sink = MemorySink()
    recorder = SpanRecorder(sink, "run-a", name="agent")
    span = recorder.start(SpanKind.MODEL, "m")
    copy = CopiedResponse(content_type, None, None, [content], library=None)
    reply = copied_reply(copy, read_response_reply if responses else read_reply, error, span, recorder)
    span.end()
    return reply, sink.ends[-1].attributes.get(FAILED_REPLY), recorder.failures


@pytest.mark.parametrize("error", [None, FAILED], ids=["taken for an answer", "raised"])
@pytest.mark.parametrize(
    ("content_type", "content"),
    [
        ("text/html", b"<html>502</html>"),
        (SSE, b"<html>502</html>"),
        (JSON, WHOLE[:40]),
        (JSON, WHOLE + b"}"),
        (JSON, WHOLE.replace(b"Hi", b"\xff\xfe")),
        (JSON, b'{"id": "r", "choices": []}'),
        (SSE, b"data: [DONE]\n\n"),
    ],
    ids=["html", "html for a stream", "half", "garbage", "not UTF-8", "no choice", "no event"],
)
def test_what_is_no_reply_is_unreadable(content_type: str, content: bytes, error: Exception | None) -> None:
    reply, failed, failures = seen(content_type, content, error)
    assert (failed, failures, reply.response_id) == ("unreadable", 0, None)


@pytest.mark.parametrize(("content", "responses"), [(PIECE, False), (PIECE + END, False), (CREATED, True)])
def test_a_stream_without_its_end_is_unreadable_where_the_sdk_raised(content: bytes, responses: bool) -> None:
    reply, failed, _ = seen(SSE, content, FAILED, responses)
    assert (failed, reply.response_id, reply.broken) == ("unreadable", None, True)


def test_a_stream_without_its_end_is_a_reply_where_the_sdk_took_it() -> None:
    reply, failed, _ = seen(SSE, PIECE + END, None)
    assert (failed, reply.response_id, reply.text) == (None, "r", "Hi.")


def test_a_whole_reply_that_the_sdk_raised_on_is_refused() -> None:
    assert seen(JSON, WHOLE, FAILED)[1] == "refused"
    assert seen(SSE, PIECE + END + b"data: [DONE]\n\n", FAILED)[1] == "refused"


def test_of_a_call_that_was_cut_off_nothing_is_said() -> None:
    assert seen(JSON, WHOLE[:40], asyncio.CancelledError())[1:] == (None, 0)
    assert seen(SSE, PIECE, asyncio.CancelledError())[1:] == (None, 0)


def test_a_stream_under_another_content_type_is_read_as_sdks_read_it() -> None:
    reply, failed, _ = seen("text/plain", PIECE + END + b"data: [DONE]\n\n", None)
    assert (failed, reply.text) == (None, "Hi.")


def test_a_reply_that_only_the_sdk_can_read_is_a_failure_of_the_recording() -> None:
    odd = b'{"id": "r", "choices": [{"index": 0, "message": "not an object"}]}'
    assert seen(JSON, odd, None)[1:] == (None, 1)

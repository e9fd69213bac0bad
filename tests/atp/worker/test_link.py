"""The link as a whole: lanes, requests and replies, pressure from a slow store, and loss of the peer."""

from __future__ import annotations

import asyncio
import contextvars
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from atp.protocol.errors import LinkBroken, StoreError
from atp.protocol.spans import ParentSource, SpanEnd, SpanKind, SpanStart, SpanStatus
from atp.worker.frames import Lane
from atp.worker.link import Link, Message, connect, memory_pair
from atp.worker.spans import ATTEMPT_RECORDS, WINDOW, SpanSender


class Collector:
    """A side that keeps what arrives, and may answer."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.lost_with: list[Exception | None] = []
        self.answer: Callable[[Message], None] = lambda message: None

    def received(self, message: Message) -> None:
        self.messages.append(message)
        self.answer(message)

    def lost(self, error: Exception | None) -> None:
        self.lost_with.append(error)

    def of(self, kind: str) -> list[Message]:
        return [message for message in self.messages if message["type"] == kind]


Ends = tuple[Link, Collector, Link, Collector]


async def _memory() -> Ends:
    left, right = Collector(), Collector()
    a, b = memory_pair(left, right)
    return a, left, b, right


async def _sockets() -> Ends:
    left, right = Collector(), Collector()
    one, other = socket.socketpair()
    return await connect(one, left), left, await connect(other, right), right


@pytest.fixture(params=[_memory, _sockets], ids=["memory", "sockets"])
async def ends(request: pytest.FixtureRequest) -> AsyncIterator[Ends]:
    make: Callable[[], Awaitable[Ends]] = request.param
    made = await make()
    yield made
    made[0].close()
    made[2].close()
    await asyncio.sleep(0.01)


def start_record(run_id: str, number: int, kind: SpanKind = SpanKind.CHAIN) -> SpanStart:
    return SpanStart(run_id, "0" * 32, f"{number:016x}", None, ParentSource.ROOT, kind, "s", number)


async def until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0)


async def test_a_request_gets_its_own_reply_whatever_the_order(ends: Ends) -> None:
    near, _, far, far_side = ends

    def answer_in_reverse(message: Message) -> None:
        if len(far_side.messages) == 3:
            for asked in reversed(far_side.messages):
                far.reply(Lane.CALL, asked, {"value": asked["n"] * 10})

    far_side.answer = answer_in_reverse
    replies = await asyncio.gather(*(near.request(Lane.CALL, {"type": "call", "n": n}) for n in range(3)))
    assert [reply["value"] for reply in replies] == [0, 10, 20]


async def test_a_second_reply_to_a_request_is_dropped(ends: Ends) -> None:
    near, near_side, far, far_side = ends

    def answer_twice(message: Message) -> None:
        far.reply(Lane.CALL, message, {"value": "first"})
        far.reply(Lane.CALL, message, {"value": "second"})

    far_side.answer = answer_twice
    assert (await near.request(Lane.CALL, {"type": "call"}))["value"] == "first"
    far_side.answer = lambda message: far.reply(Lane.CALL, message, {"value": "third"})
    assert (await near.request(Lane.CALL, {"type": "call"}))["value"] == "third"
    assert near_side.messages == []


async def test_control_goes_before_calls_and_calls_before_spans(ends: Ends) -> None:
    near, _, _, far_side = ends
    near.send(Lane.SPAN, {"type": "spans"})
    near.send(Lane.CALL, {"type": "call"})
    near.send(Lane.CONTROL, {"type": "beat"})
    await until(lambda: len(far_side.messages) == 3)
    assert [message["type"] for message in far_side.messages] == ["beat", "call", "spans"]


async def test_a_heartbeat_overtakes_a_flood_of_spans_that_the_socket_does_not_take() -> None:
    near, _, _, far_side = await _sockets()
    for _ in range(40):
        near.send(Lane.SPAN, {"type": "spans", "text": "x" * 1_000_000})
    await asyncio.sleep(0)  # the flood has begun to flow
    near.send(Lane.CONTROL, {"type": "beat"})
    await until(lambda: len(far_side.messages) == 41)
    assert [message["type"] for message in far_side.messages].index("beat") < 40
    near.close()
    await until(lambda: far_side.lost_with)


async def test_what_arrives_does_not_run_in_the_context_of_who_sent_it(ends: Ends) -> None:
    near, _, _, far_side = ends
    sender: contextvars.ContextVar[str] = contextvars.ContextVar("sender", default="nobody")
    seen: list[str] = []
    far_side.answer = lambda message: seen.append(sender.get())

    async def send_as(name: str) -> None:
        sender.set(name)
        near.send(Lane.CONTROL, {"type": "beat"})
        await asyncio.sleep(0.01)

    await asyncio.gather(send_as("one"), send_as("other"))
    await until(lambda: len(seen) == 2)
    assert seen == ["nobody", "nobody"]


async def test_when_the_peer_goes_every_open_request_fails_and_the_handler_hears_once(ends: Ends) -> None:
    near, near_side, far, _ = ends
    asking = asyncio.create_task(near.request(Lane.CALL, {"type": "call"}))
    await asyncio.sleep(0.01)
    far.close()
    with pytest.raises(LinkBroken):
        await asking
    await until(lambda: near_side.lost_with)
    assert len(near_side.lost_with) == 1
    with pytest.raises(LinkBroken):
        await near.request(Lane.CALL, {"type": "call"})


async def test_a_store_that_stands_still_slows_the_hooks_of_the_attempt_that_floods_and_nothing_else(
    ends: Ends,
) -> None:
    near, _, far, far_side = ends
    sender = SpanSender(near)
    flooding, other = sender.sink("run-flood"), sender.sink("run-other")
    for number in range(ATTEMPT_RECORDS + 1):
        flooding.start(start_record("run-flood", number))
    other.start(start_record("run-other", 1))

    held = asyncio.create_task(flooding.ready())
    await asyncio.wait_for(other.ready(), 1)
    near.send(Lane.CONTROL, {"type": "beat"})
    await until(lambda: far_side.of("beat"))
    await asyncio.sleep(0.05)
    assert not held.done()

    def acknowledge(message: Message) -> None:
        if message["type"] == "spans":
            far.reply(Lane.CONTROL, message, {"error": None})

    far_side.answer = acknowledge
    for message in far_side.of("spans"):
        acknowledge(message)
    await asyncio.wait_for(held, 5)
    await asyncio.wait_for(asyncio.gather(flooding.flush(), other.flush()), 5)
    assert sum(len(message["starts"]) for message in far_side.of("spans")) == ATTEMPT_RECORDS + 2


async def test_a_model_call_begins_when_the_span_of_the_one_before_is_durable(ends: Ends) -> None:
    near, _, far, far_side = ends
    sender = SpanSender(near)
    sink, other = sender.sink("run-a"), sender.sink("run-b")
    await asyncio.wait_for(sink.ready(before_call=True), 1)  # nothing has been asked yet
    start = start_record("run-a", 1, SpanKind.MODEL)
    sink.start(start)
    sink.end(SpanEnd(start, 2, SpanStatus.OK, {}, {}, None, None, ()))
    await asyncio.wait_for(sink.ready(), 1)

    next_call = asyncio.create_task(sink.ready(before_call=True))
    await asyncio.wait_for(other.ready(before_call=True), 1)  # what others wait for is not its affair
    await until(lambda: far_side.of("spans"))
    assert not next_call.done()
    sink.start(start_record("run-a", 2))
    [message] = far_side.of("spans")
    far.reply(Lane.CONTROL, message, {"error": None})
    await asyncio.wait_for(next_call, 5)


async def test_no_more_than_a_window_of_batches_is_under_way(ends: Ends) -> None:
    near, _, _, far_side = ends
    sender = SpanSender(near)
    for number in range(WINDOW * 3):
        sender.sink("run-a").start(start_record("run-a", number))
        sender.flush()
        await asyncio.sleep(0)
    await asyncio.sleep(0.05)
    assert len(far_side.of("spans")) == WINDOW


async def test_a_body_travels_once_until_the_store_refuses_it(ends: Ends) -> None:
    near, _, far, far_side = ends
    sender = SpanSender(near)
    sink = sender.sink("run-a")
    refusals = ["disk full", None, None]
    far_side.answer = lambda message: far.reply(Lane.CONTROL, message, {"error": refusals.pop(0)})
    for _ in range(2):
        sink.body("d" * 64, b'"text"')
    with pytest.raises(StoreError, match="disk full"):
        await sink.flush()
    sender.forget("run-a")
    again = sender.sink("run-b")
    again.body("d" * 64, b'"text"')
    await again.flush()
    again.body("d" * 64, b'"text"')
    again.start(start_record("run-b", 1))
    await again.flush()
    assert [len(message["bodies"]) for message in far_side.of("spans")] == [1, 1, 0]


async def test_the_last_message_of_an_attempt_stays_behind_its_records_when_the_window_is_full(
    ends: Ends,
) -> None:
    near, _, far, far_side = ends
    sender = SpanSender(near)
    sink = sender.sink("run-a")
    for number in range(WINDOW + 2):
        sink.start(start_record("run-a", number))
        sender.flush()
    sink.start(start_record("run-a", WINDOW + 2))
    sender.finish("run-a", {"type": "outcome"})
    await asyncio.sleep(0.05)
    assert far_side.of("outcome") == []
    far_side.answer = lambda message: (
        far.reply(Lane.CONTROL, message, {"error": None}) if message["type"] == "spans" else None
    )
    for message in far_side.of("spans"):
        far_side.answer(message)
    await until(lambda: far_side.of("outcome"))
    assert [message["type"] for message in far_side.messages] == ["spans"] * (WINDOW + 3) + ["outcome"]

"""The link's frames: what goes in at one end comes out whole at the other, or the link breaks."""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atp.protocol.errors import LinkBroken
from atp.protocol.json_text import decode, encode
from atp.protocol.trace import TaskTrace
from atp.worker.frames import CHUNK, MAX_PAYLOAD, VERSION, FrameReader, Lane, frames
from atp.worker.messages import Outcome

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters()),
    lambda children: (
        st.lists(children, max_size=4) | st.dictionaries(st.text(st.characters()), children, max_size=4)
    ),
    max_leaves=12,
)


def received(pieces: Sequence[bytes]) -> list[tuple[Lane, Any]]:
    reader = FrameReader()
    return [(got.lane, got.message) for piece in pieces for got in reader.feed(piece)]


@given(json_values)
def test_json_survives_the_round_trip_lone_surrogates_included(value: Any) -> None:
    back = decode(encode(value))
    assert back == value
    assert repr(back) == repr(value)  # 2.0 stays a float, True a bool


@pytest.mark.parametrize("value", [math.inf, -math.inf])
def test_infinite_numbers_survive(value: float) -> None:
    assert decode(encode([value])) == [value]


def test_not_a_number_survives() -> None:
    assert math.isnan(decode(encode([math.nan]))[0])


@given(
    st.lists(st.tuples(st.sampled_from(Lane), json_values), max_size=5),
    st.lists(st.integers(min_value=1, max_value=40), min_size=1, max_size=20),
)
def test_messages_arrive_in_order_however_the_bytes_are_cut(
    messages: list[tuple[Lane, Any]], cuts: list[int]
) -> None:
    stream = b"".join(frame for lane, message in messages for frame in frames(lane, encode(message)))
    pieces, offset, turn = [], 0, 0
    while offset < len(stream):
        step = cuts[turn % len(cuts)]
        pieces.append(stream[offset : offset + step])
        offset, turn = offset + step, turn + 1
    assert received(pieces) == messages


def test_a_ten_megabyte_message_travels_in_frames_of_at_most_one_mebibyte() -> None:
    text = "x" * 10_000_000
    cut = list(frames(Lane.CALL, encode(text)))
    assert len(cut) == math.ceil((len(text) + 2) / CHUNK) + 1  # the chunks and the reference
    assert max(map(len, cut)) <= MAX_PAYLOAD + 6
    assert received(cut) == [(Lane.CALL, text)]


def test_a_control_frame_may_pass_between_two_chunks() -> None:
    large = list(frames(Lane.SPAN, encode("y" * (2 * CHUNK))))
    control = list(frames(Lane.CONTROL, encode({"type": "beat"})))
    assert received([large[0], *control, *large[1:]]) == [
        (Lane.CONTROL, {"type": "beat"}),
        (Lane.SPAN, "y" * (2 * CHUNK)),
    ]


def test_another_version_is_refused_and_says_what_to_do() -> None:
    with pytest.raises(LinkBroken, match=r"link version 9.*atp env create"):
        received([struct.pack("!IBB", 0, 9, 0)])


def test_a_frame_past_its_limit_is_refused_before_its_payload_arrives() -> None:
    with pytest.raises(LinkBroken, match="at most 1048576"):
        received([struct.pack("!IBB", MAX_PAYLOAD + 1, VERSION, 0)])


@pytest.mark.parametrize("kind", [0x03, 0x30, 0xFF])
def test_an_unknown_kind_is_refused(kind: int) -> None:
    with pytest.raises(LinkBroken, match="unknown kind"):
        received([struct.pack("!IBB", 2, VERSION, kind) + b"{}"])


def test_a_body_that_lost_a_chunk_is_refused() -> None:
    large = list(frames(Lane.CALL, encode("z" * (2 * CHUNK))))
    with pytest.raises(LinkBroken, match="did not arrive whole"):
        received([*large[:1], *large[2:]])


def test_a_reference_to_nothing_is_refused() -> None:
    digest = hashlib.sha256(b"nothing").digest()
    with pytest.raises(LinkBroken, match=digest.hex()):
        received([struct.pack("!IBB", 40, VERSION, 0x20) + digest + struct.pack("!Q", 7)])


def test_a_message_that_is_not_json_breaks_the_link() -> None:
    with pytest.raises(LinkBroken, match="not JSON"):
        received([struct.pack("!IBB", 1, VERSION, 0) + b"{"])


@pytest.mark.parametrize("text", ["plain", "half of a pair: \ud83d"])
def test_an_exchanged_value_travels_as_it_is(text: str) -> None:
    outcome = Outcome(run_id="run-a", trace=TaskTrace(final_answer=text, native={"n": 2.0}), elapsed=1.0)
    [(_, arrived)] = received(list(frames(Lane.SPAN, encode({"type": "outcome", "outcome": outcome}))))
    assert Outcome.model_validate(arrived["outcome"]) == outcome

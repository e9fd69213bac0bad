"""Message lists as chains of bodies."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from monitor.message_lists import MessageLists
from tests.monitor.memory_sink import MemorySink


def message(text: str) -> dict[str, Any]:
    return {"role": "user", "parts": [{"type": "text", "content": text}]}


@given(st.lists(st.lists(st.integers(0, 5), max_size=8), max_size=12))
def test_every_list_reads_back_as_it_was_stored(lists: list[list[int]]) -> None:
    sink = MemorySink()
    chain = MessageLists(sink.body, remembered=3, links=2)
    for numbers in lists:
        messages = [message(str(number)) for number in numbers]
        digest, _ = chain.store("input", messages)
        assert sink.messages(digest) == messages


def test_bytes_per_turn_stay_constant_over_200_turns() -> None:
    sink = MemorySink()
    chain = MessageLists(sink.body)
    conversation: list[dict[str, Any]] = []
    per_turn: list[int] = []
    for turn in range(200):
        conversation += [message(f"question {turn:04}"), message(f"answer {turn:04}")]
        before = sink.bytes_handed
        chain.store("input", list(conversation))
        per_turn.append(sink.bytes_handed - before)
    # spec: per turn at turn 200 against turn 10, at most 1.2
    assert per_turn[199] <= 1.2 * per_turn[9]


def test_each_message_is_hashed_once() -> None:
    handed: list[bytes] = []
    chain = MessageLists(lambda _, content: handed.append(content))
    first, second = message("one"), message("two")
    chain.store("input", [first])
    chain.store("input", [first, second])
    assert [json.loads(content).get("role") for content in handed].count("user") == 2


def test_a_list_that_begins_with_no_earlier_one_starts_anew() -> None:
    sink = MemorySink()
    chain = MessageLists(sink.body)
    chain.store("input", [message("one"), message("two")])
    digest, _ = chain.store("input", [message("summary"), message("three")])
    assert sink.json(digest)["prev"] is None


def test_the_same_list_again_is_the_same_body() -> None:
    sink = MemorySink()
    chain = MessageLists(sink.body)
    messages = [message("one")]
    assert chain.store("input", messages) == chain.store("input", messages)


def test_a_branch_continues_the_list_it_left() -> None:
    sink = MemorySink()
    chain = MessageLists(sink.body)
    one, two, three, four = map(message, ["one", "two", "three", "four"])
    base, _ = chain.store("input", [one, two])
    chain.store("input", [one, two, three])
    branch, _ = chain.store("input", [one, two, four])
    assert sink.json(branch)["prev"] == base

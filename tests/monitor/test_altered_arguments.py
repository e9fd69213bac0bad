"""The model's text against what the binding got: same JSON value or not (RFC 8259)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.records import AlteredArguments, altered_arguments
from monitor.records.arguments import altered

JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("written", "delivered"),
    [
        ('{"a": 2}', {"a": 2}),
        ('{"a": 2.0}', {"a": 2.0}),
        ('{"b": 1, "a": 2}', {"a": 2, "b": 1}),
        ('{"a": 1e2}', {"a": 100.0}),
        ('{"a": "\\u00e9"}', {"a": "é"}),
        ('{"a": 1, "a": 2}', {"a": 2}),
        ('{"a": 18446744073709551616}', {"a": 2**64}),
        ('{"city": "Par', '{"city": "Par'),
    ],
)
def test_the_same_value_is_not_altered(written: str, delivered: Any) -> None:
    assert not altered(written, delivered)


@pytest.mark.parametrize(
    ("written", "delivered"),
    [
        ('{"a": 2}', {"a": 2.0}),
        ('{"a": 2.0}', {"a": 2}),
        ('{"a": 1}', {"a": True}),
        ('{"a": "2"}', {"a": 2}),
        ('{"a": 0.0}', {"a": -0.0}),
        ('{"a": null}', {}),
        ('{"a": 1, "a": 2}', {"a": 1}),
        ('{"a": [1, 2]}', {"a": [2, 1]}),
        ('{"city": "Par', {"city": "Par"}),
        ("", {}),
        ('{"a": 18446744073709551616}', {"a": 1.8446744073709552e19}),
        ("[" * 100_000, {}),
        (f'{{"a": {"9" * 5000}}}', {"a": 9}),
    ],
)
def test_another_value_is_altered(written: str, delivered: Any) -> None:
    assert altered(written, delivered)


@given(JSON)
def test_what_is_written_and_read_again_is_not_altered(value: Any) -> None:
    assert not altered(json.dumps(value), value)


def test_an_altered_call_is_the_harnesss_nature_and_shows_both_values() -> None:
    differences, native = altered_arguments(
        [AlteredArguments("call_1", "pay", '{"cents": 2}', {"cents": 2.0})]
    )
    assert differences == []
    assert native == [
        "arguments_altered_by_harness: call call_1 (pay): "
        'the model wrote {"cents": 2}, the binding got {"cents": 2.0}'
    ]


def test_calls_of_one_tool_that_got_each_others_arguments_are_a_difference() -> None:
    calls = [
        AlteredArguments("call_1", "pay", '{"cents": 1}', {"cents": 2}),
        AlteredArguments("call_2", "pay", '{"cents": 2}', {"cents": 1}),
    ]
    differences, native = altered_arguments(calls)
    assert native == []
    assert differences == [
        'call_ids_swapped: call call_1 (pay): the model wrote {"cents": 1}, the binding got {"cents": 2}, '
        "which the model wrote for call call_2",
        'call_ids_swapped: call call_2 (pay): the model wrote {"cents": 2}, the binding got {"cents": 1}, '
        "which the model wrote for call call_1",
    ]


def test_long_arguments_are_shown_by_their_beginning_and_size() -> None:
    _, [native] = altered_arguments([AlteredArguments("c", "pay", "x" * 300, {})])
    assert f"the model wrote {'x' * 200}… (300 characters), the binding got {{}}" in native

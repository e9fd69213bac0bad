"""Values as they are stored."""

from __future__ import annotations

import hashlib
import json
from decimal import Decimal
from enum import Enum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.bodies import attribute, body

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)
ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters())
    | st.text(st.characters(categories=["Cs"]))
    | st.binary()
    | st.decimals()
    | st.uuids()
    | st.dates(),
    lambda inner: (
        st.lists(inner)
        | st.tuples(inner)
        | st.sets(st.integers())
        | st.dictionaries(st.integers() | st.text(), inner)
    ),
    max_leaves=20,
)


class Colour(Enum):
    RED = "red"


@given(JSON)
def test_json_comes_back_as_it_was(value: Any) -> None:
    digest, content, altered = body(value)
    assert json.loads(content) == value
    assert altered == 0
    assert digest == hashlib.sha256(content).hexdigest()


@given(ANYTHING)
def test_everything_has_a_stored_form_that_is_json_in_utf8(value: Any) -> None:
    _, content, _ = body(value)
    json.loads(content.decode("utf-8"), parse_constant=pytest.fail)


@given(ANYTHING)
def test_every_attribute_is_a_scalar_or_texts_that_postgresql_and_otlp_take(value: Any) -> None:
    form, _ = attribute(value)
    texts = form if isinstance(form, list) else [form] if isinstance(form, str) else []
    for text in texts:
        assert "\x00" not in text
        text.encode("utf-8")
    if isinstance(form, int):
        assert -(2**63) <= form < 2**63


@pytest.mark.parametrize(
    ("value", "form"),
    [
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
        ("a\ud800", "a\ufffd"),
        (b"\xff", {"base64": "/w=="}),
        ({3, 1, 2}, [1, 2, 3]),
        (Decimal("1.50"), "1.50"),
        (Colour.RED, "red"),
        ({1: 2}, {"1": 2}),
    ],
)
def test_what_json_cannot_hold_gets_the_stated_form(value: Any, form: Any) -> None:
    _, content, _ = body(value)
    assert json.loads(content) == form


@pytest.mark.parametrize(
    ("value", "form"),
    [
        (2**63, "9223372036854775808"),
        (2**63 - 1, 2**63 - 1),
        ("a\0b", "a\u2400b"),
        (float("inf"), "Infinity"),
        ({"a": 1}, '{"a":1}'),
        ([1, "b"], ["1", "b"]),
        (Colour.RED, "red"),
    ],
)
def test_attributes_get_the_stated_form(value: Any, form: Any) -> None:
    assert attribute(value)[0] == form


def test_altered_values_are_counted() -> None:
    assert body({"a": float("nan"), "b": [b"x", 1]})[2] == 2


def test_a_value_that_holds_itself_is_stored() -> None:
    circle: list[Any] = [1]
    circle.append(circle)
    assert json.loads(body(circle)[1]) == [1, "<list within itself>"]


def test_the_order_in_which_arguments_were_written_is_kept() -> None:
    assert body({"b": 1, "a": 2})[1] == b'{"b":1,"a":2}'

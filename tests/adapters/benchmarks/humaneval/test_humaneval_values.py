"""Plain data between test and solution."""

from __future__ import annotations

import collections
import enum
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.benchmarks.humaneval.values import Opaque, dumps, loads

hashable = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.complex_numbers(allow_nan=False)
    | st.text(st.characters())
    | st.binary()
    | st.decimals(allow_nan=False)
    | st.fractions(),
    lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3),
    max_leaves=8,
)
values = st.recursive(
    hashable,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(hashable, inner, max_size=4)
        | st.sets(hashable, max_size=3)
    ),
    max_leaves=12,
)


@given(values)
def test_plain_data_cross_unchanged_in_value_and_type(value: Any) -> None:
    line = dumps(value)
    assert b"\n" not in line
    back = loads(line)
    assert back == value
    assert repr(back) == repr(value) or isinstance(value, (set, frozenset, dict, list, tuple))
    assert type(back) is type(value)


@given(st.binary(max_size=200) | st.text("ntbifsydlSFcoDR0123456789abcdefx.+- ", max_size=60).map(str.encode))
def test_any_other_line_is_refused_with_a_value_error_or_is_plain(line: bytes) -> None:
    try:
        value = loads(line)
    except ValueError:
        return
    assert type(value) in (
        type(None), bool, int, float, complex, str, bytes, list, tuple, dict, set, frozenset, Decimal,
        Fraction, Opaque,
    )  # fmt: skip


def test_not_a_number_crosses() -> None:
    assert math.isnan(loads(dumps(math.nan)))


def test_a_large_integer_crosses() -> None:
    assert loads(dumps(7**20000)) == 7**20000


class Pair(NamedTuple):
    """A tuple with names."""

    x: int
    y: int


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (collections.OrderedDict(a=1), {"a": 1}),
        (collections.Counter("aab"), {"a": 2, "b": 1}),
        (Pair(1, 2), (1, 2)),
        (enum.IntEnum("E", "ONE").ONE, 1),  # type: ignore[attr-defined]
        (bytearray(b"x"), b"x"),
    ],
)
def test_a_subclass_crosses_as_its_plain_type(value: Any, plain: Any) -> None:
    back = loads(dumps(value))
    assert (back, type(back)) == (plain, type(plain))


class AlwaysEqual(int):
    """Equal to everything, as long as it is itself."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = int.__hash__


def test_a_value_that_claims_to_equal_everything_is_only_its_number() -> None:
    assert loads(dumps(AlwaysEqual(3))) != 4


def test_what_is_no_plain_data_equals_nothing_not_even_itself() -> None:
    back = loads(dumps(object()))
    assert isinstance(back, Opaque)
    assert back != back and back != 1  # noqa: PLR0124


def test_an_iterator_crosses_with_its_items() -> None:
    back = loads(dumps(x * x for x in range(4)))
    assert (list(back), tuple(back), back == [0, 1, 4, 9]) == ([0, 1, 4, 9], (0, 1, 4, 9), False)


def test_an_endless_iterator_crosses_without() -> None:
    def endless() -> Any:
        while True:
            yield 1

    with pytest.raises(TypeError, match="not iterable"):
        iter(loads(dumps(endless())))


def test_truth_crosses() -> None:
    assert [bool(loads(dumps(range(n)))) for n in (0, 1)] == [False, True]


def test_a_list_that_holds_itself_crosses_as_something_opaque() -> None:
    circle: list[Any] = []
    circle.append(circle)
    assert isinstance(loads(dumps(circle)), Opaque)


def test_a_forged_line_that_nests_too_deeply_is_refused() -> None:
    with pytest.raises(ValueError, match="RecursionError"):
        loads(b"l1 " * 200_000 + b"n")

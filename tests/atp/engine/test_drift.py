"""Differences between two definitions, each by its field, the old value and the new."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from atp.engine.drift import MOST_NAMED, differences, refusal

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(min_size=1, max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)
DEFINITIONS = st.dictionaries(st.text(min_size=1, max_size=3), JSON, max_size=4)


def test_a_changed_leaf_is_named_with_its_path_and_both_values() -> None:
    then: dict[str, Any] = {"options": {"limits": {"max_turns": 5}}, "cells": [{"sdk": {"langgraph": "1.0"}}]}
    now = copy.deepcopy(then)
    now["options"]["limits"]["max_turns"] = 6
    now["cells"][0]["sdk"]["langgraph"] = "1.1"
    assert [str(difference) for difference in differences(then, now)] == [
        "options.limits.max_turns: was 5, is 6",
        "cells.0.sdk.langgraph: was '1.0', is '1.1'",
    ]


def test_what_was_not_there_and_what_has_gone_are_nothing() -> None:
    assert [str(difference) for difference in differences({"a": 1}, {"b": 2})] == [
        "a: was 1, is nothing",
        "b: was nothing, is 2",
    ]


def test_true_is_not_1_and_1_0_is_not_1() -> None:
    assert len(differences({"a": True, "b": 1.0}, {"a": 1, "b": 1})) == 2


@given(DEFINITIONS)
def test_equal_definitions_differ_in_nothing(definition: dict[str, Any]) -> None:
    assert differences(definition, copy.deepcopy(definition)) == []


@given(DEFINITIONS, DEFINITIONS)
def test_definitions_differ_in_nothing_only_when_they_say_the_same(
    then: dict[str, Any], now: dict[str, Any]
) -> None:
    # A field that is null says what a missing one says.
    assert bool(differences(then, now)) == (_said(then) != _said(now))


def test_a_refusal_names_some_differences_and_counts_the_rest() -> None:
    then = {f"k{n}": n for n in range(MOST_NAMED + 3)}
    text = refusal("exp-1", differences(then, {}))
    assert "k0: was 0, is nothing" in text
    assert "and 3 more" in text
    assert "--allow-drift" in text


def _said(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: said for key, item in value.items() if (said := _said(item)) is not None}
    if isinstance(value, list):
        return [_said(item) for item in value]
    return (type(value).__name__, value) if value is not None else None

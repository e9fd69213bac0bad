"""Resolving bodies without a database."""

from __future__ import annotations

import pytest

from atp.protocol.errors import StoreError
from atp.store.bodies import resolve

A, B, C = "a" * 64, "b" * 64, "c" * 64


def test_bodies_that_refer_to_each_other_are_refused() -> None:
    with pytest.raises(StoreError, match="itself"):
        resolve({A: {"prev": B, "items": []}, B: {"prev": A, "items": []}})


def test_a_body_that_two_lists_share_is_in_both() -> None:
    resolved = resolve({A: "hello", B: {"prev": None, "items": [A]}, C: {"prev": B, "items": [A]}})
    assert resolved == {A: "hello", B: ["hello"], C: ["hello", "hello"]}

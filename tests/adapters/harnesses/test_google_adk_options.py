"""The options of google-adk, and what its card declares."""

from __future__ import annotations

from typing import Any

import pytest

from adapters.harnesses.google_adk import CARD
from adapters.harnesses.google_adk_options import Options
from atp.protocol.errors import InvalidInput


def test_what_is_not_asked_for_is_left_to_adk() -> None:
    assert Options.of({}) == Options(stream=False, retries=None)


def test_options_are_read_as_the_command_line_gives_them() -> None:
    asked = {"stream": "true", "retries": "2", "dialect": "openai-chat"}
    assert Options.of(asked) == Options(stream=True, retries=2)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (
            {"streem": "true"},
            "no option harness.streem; it has harness.dialect, harness.retries, harness.stream",
        ),
        ({"stream": "yes"}, "harness.stream is true or false, not 'yes'"),
        ({"retries": "-1"}, "harness.retries is a number, not '-1'"),
    ],
)
def test_what_is_no_option_is_refused(options: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidInput, match=told):
        Options.of(options)


def test_the_card_lists_every_option() -> None:
    assert CARD.options.keys() == {"dialect", "retries", "stream"}

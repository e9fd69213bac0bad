"""The options every command has."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from atp.cli.options import assignments, read_environment_file
from atp.protocol.errors import InvalidInput


def _read(folder: Path, text: str) -> None:
    path = folder / "variables"
    path.write_text(text, encoding="utf-8")
    read_environment_file(path)


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables that a test sets go with it."""
    for name in ("ATP_TEST_ONE", "ATP_TEST_TWO"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


def test_variables_are_read_with_comments_exports_and_quotes(tmp_path: Path) -> None:
    _read(tmp_path, "# a comment\n\nexport ATP_TEST_ONE='a b'\nATP_TEST_TWO = x=y\n")
    assert os.environ["ATP_TEST_ONE"] == "a b"
    assert os.environ["ATP_TEST_TWO"] == "x=y"


def test_what_is_set_already_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATP_TEST_ONE", "set")
    _read(tmp_path, "ATP_TEST_ONE=file\n")
    assert os.environ["ATP_TEST_ONE"] == "set"


def test_a_bad_line_is_named_and_not_shown(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"variables:2: write NAME=VALUE") as refused:
        _read(tmp_path, "ATP_TEST_ONE=1\nsk-secret\n")
    assert "sk-secret" not in refused.value.message


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="none: cannot be read"):
        read_environment_file(tmp_path / "none")


def test_repeated_assignments_keep_their_equals_signs() -> None:
    assert assignments(["a=1", "b=x=y"], "-o") == {"a": "1", "b": "x=y"}


def test_an_option_without_a_value_is_refused() -> None:
    with pytest.raises(InvalidInput, match="-o 'a': write KEY=VALUE"):
        assignments(["a"], "-o")

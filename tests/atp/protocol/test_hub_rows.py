"""Fetched rows are read only where they are those of the receipt, and the receipt that of the source."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from atp.protocol.cards import HubSource
from atp.protocol.errors import InvalidInput
from atp.protocol.hub_rows import RECEIPT, ROWS, Receipt, read_rows, receipt_in, trouble_with

SOURCE = HubSource(
    name="tiny", dataset="some/tiny", config="main", split="test", revision="a" * 40, license="MIT", rows=1
)
LINE = b'{"question": "How many?"}\n'


@pytest.fixture
def data(tmp_path: Path) -> Path:
    receipt = Receipt(
        **SOURCE.model_dump(include={"dataset", "config", "split", "revision", "rows"}),
        sha256=hashlib.sha256(LINE).hexdigest(),
        library="5.2.0",
    )
    (tmp_path / ROWS).write_bytes(LINE)
    (tmp_path / RECEIPT).write_text(receipt.model_dump_json(), encoding="utf-8")
    return tmp_path


def test_rows_are_read_as_they_were_fetched(data: Path) -> None:
    assert read_rows(data, SOURCE) == [{"question": "How many?"}]
    assert trouble_with(data, SOURCE) is None


@pytest.mark.parametrize(
    "other", [{"revision": "b" * 40}, {"config": "socratic"}, {"split": "train"}, {"dataset": "some/other"}]
)
def test_rows_of_another_data_set_are_refused(data: Path, other: dict[str, str]) -> None:
    with pytest.raises(InvalidInput, match="is that of another data set; remove .* `atp data get tiny`"):
        read_rows(data, SOURCE.model_copy(update=other))


def test_a_receipt_that_is_none_is_named(data: Path) -> None:
    (data / RECEIPT).write_text("{}", encoding="utf-8")
    assert receipt_in(data) is None
    assert trouble_with(data, SOURCE) == f"{data / RECEIPT} cannot be read"


def test_missing_rows_are_named(data: Path) -> None:
    (data / ROWS).unlink()
    assert trouble_with(data, SOURCE) == f"{data / ROWS} cannot be read (No such file or directory)"


@pytest.mark.parametrize(
    "loose", [{"revision": "main"}, {"revision": "a" * 7}, {"dataset": "gsm8k"}, {"dataset": "../secrets"}]
)
def test_a_source_is_an_owners_data_set_at_a_whole_commit(loose: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        HubSource.model_validate(SOURCE.model_dump() | loose)


@given(st.text(alphabet="0123456789abcdef", min_size=40, max_size=40), st.integers(min_value=0))
def test_a_source_survives_json(revision: str, rows: int) -> None:
    source = SOURCE.model_copy(update={"revision": revision, "rows": rows})
    assert HubSource.model_validate_json(source.model_dump_json()) == source

"""The endpoint's log on disk."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from atp.models.scripted.wire_log import WireLog, read_wire_log
from atp.protocol.errors import InvalidInput
from atp.protocol.redaction import Redactor


async def test_records_are_in_the_file_in_order_once_they_are_acknowledged(tmp_path: Path) -> None:
    log = WireLog(tmp_path / "wire.jsonl", Redactor())
    await asyncio.gather(*(log.append({"number": number}) for number in range(200)))
    assert [record["number"] for record in read_wire_log(tmp_path / "wire.jsonl")] == list(range(200))
    await log.close()


async def test_closing_writes_what_is_queued(tmp_path: Path) -> None:
    log = WireLog(tmp_path / "wire.jsonl", Redactor())
    written = log.append({"number": 1})
    await log.close()
    assert len(list(read_wire_log(tmp_path / "wire.jsonl"))) == 1
    await written


async def test_a_record_that_cannot_be_written_is_an_error_of_its_own(tmp_path: Path) -> None:
    # /dev/full takes no byte: what a full disk does (full(4)).
    log = WireLog(Path("/dev/full"), Redactor())
    with pytest.raises(OSError, match="No space left"):
        await log.append({"number": 1})
    await log.close()


def test_a_last_line_without_its_end_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "wire.jsonl"
    path.write_bytes(b'{"number":1}\n{"number":2}\n{"num')
    assert [record["number"] for record in read_wire_log(path)] == [1, 2]


def test_a_broken_line_in_the_middle_is_named(tmp_path: Path) -> None:
    path = tmp_path / "wire.jsonl"
    path.write_bytes(b'{"number":1}\n{"num\n{"number":3}\n')
    with pytest.raises(InvalidInput, match=r"wire\.jsonl, line 2"):
        list(read_wire_log(path))


def test_a_missing_log_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot be read"):
        list(read_wire_log(tmp_path / "absent.jsonl"))

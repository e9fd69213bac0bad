"""The endpoint's own log: one JSON line for each request, on disk before its answer has ended.

The log is written by the endpoint's process alone and outlives the engine. A line is in the file,
and the file is on the disk, before the last byte of the answer it tells of goes out; the lines of
requests that end at the same time share one fsync. Secrets within a request are not in it, by the same
rules as everywhere (`atp.protocol.redaction`).
"""

from __future__ import annotations

import asyncio
import os
import queue
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from atp.protocol.errors import InvalidInput
from atp.protocol.records import ModelCallRecord
from atp.protocol.redaction import Redactor
from atp.protocol.trace import Usage


class WireLog:
    """Appends lines to the log in a thread of its own. Used from one event loop."""

    def __init__(self, path: Path, redactor: Redactor) -> None:
        """Open the log, at its end if it exists.

        Args:
            path: The file.
            redactor: Decides what is secret; asked in the log's own thread.

        Raises:
            OSError: It cannot be opened.
        """
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._redactor = redactor
        self._loop = asyncio.get_running_loop()
        self._lines: queue.SimpleQueue[tuple[bytes, asyncio.Future[None]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._write_lines, name="wire-log", daemon=True)
        self._thread.start()

    def append(self, record: Mapping[str, Any]) -> asyncio.Future[None]:
        """Queue a record; lines stand in the file in the order of these calls.

        Returns:
            Done when the record is on the disk; an `OSError` when it could not be written.
        """
        done: asyncio.Future[None] = self._loop.create_future()
        self._lines.put((orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE), done))
        return done

    async def close(self) -> None:
        """Write what is queued and close the file."""
        self._lines.put(None)
        await asyncio.to_thread(self._thread.join)
        os.close(self._file)

    def _redacted(self, line: bytes) -> bytes:
        if not self._redactor.suspects(line):
            return line
        record = orjson.loads(line)
        clean = self._redactor.value(record)
        return line if clean is record else orjson.dumps(clean, option=orjson.OPT_APPEND_NEWLINE)

    def _write_lines(self) -> None:
        while True:
            batch = [self._lines.get()]
            while not self._lines.empty():
                batch.append(self._lines.get())
            entries = [(self._redacted(entry[0]), entry[1]) for entry in batch if entry is not None]
            failure: OSError | None = None
            try:
                _write_all(self._file, b"".join(line for line, _ in entries))
                os.fdatasync(self._file)
            except OSError as error:
                failure = error
            self._loop.call_soon_threadsafe(_settle, [done for _, done in entries], failure)
            if len(entries) < len(batch):
                return


def _settle(futures: list[asyncio.Future[None]], failure: OSError | None) -> None:
    for future in futures:
        if future.done():
            continue
        if failure is None:
            future.set_result(None)
        else:
            future.set_exception(failure)


def _write_all(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


def read_wire_log(path: Path) -> Iterator[dict[str, Any]]:
    """The records of a log, in order.

    A last line without its end is what a killed endpoint was writing; no answer had gone out for
    it, and it is left out.

    Raises:
        InvalidInput: The file is missing, or a whole line is not a JSON object.
    """
    try:
        with path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if not line.endswith(b"\n"):
                    return
                record = _record(line)
                if record is None:
                    raise InvalidInput(f"wire log {path}, line {number}: not a JSON object")
                yield record
    except OSError as error:
        raise InvalidInput(f"wire log {path}: cannot be read: {error}") from error


def _record(line: bytes) -> dict[str, Any] | None:
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None


def model_call_of(record: Mapping[str, Any]) -> ModelCallRecord:
    """A record of the log in the form in which witnesses are compared."""
    return ModelCallRecord(
        response_id=record["response_id"],
        model=record["model"],
        usage=Usage(**record["usage"]) if record["usage"] is not None else Usage(),
        finish_reason=record["finish_reason"],
        tool_calls=tuple((call["id"], call["name"]) for call in record["tool_calls"]),
        http_status=record["status"],
        actor=record["actor"],
        request=record["request"],
        held=None if record["held"] is None else tuple(record["held"]),
        pasted=tuple(record["pasted"]),
    )

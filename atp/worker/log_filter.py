"""The filter of a worker's log: `python -m atp.worker.log_filter KNOWN`, a process of its own.

What the worker and its children print arrives on standard input and goes to standard output, the log
file, without secrets. `KNOWN` is an inherited descriptor that gives the known values as JSON.

A process, since nothing else keeps its promise: in the worker a thread would stand still with whatever
holds the interpreter, in the engine a flood would take the event loop's time, and in both it would die
with them. It ends when nobody is left who could print.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from collections.abc import Iterator

from atp.protocol.redaction import Redactor

CHUNK = 1 << 16
"""Bytes read at once, and kept at most while a line has no end."""

_PEM_BEGIN = re.compile(rb"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----")
_PEM_END = re.compile(rb"-----END [A-Z0-9 ]{0,40}PRIVATE KEY-----")


def main() -> None:
    """Filter until the end of standard input."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the worker may still have something to say
    with open(int(sys.argv[1]), encoding="utf-8") as known:
        redactor = Redactor({name: value for value, name in json.load(known).items()})
    full = False
    for lines in _whole_lines():
        if full:
            continue  # a worker must not wait because its log cannot be written
        try:
            _write(_clean(lines, redactor))
        except OSError as error:
            full = True
            print(f"the log of a worker cannot be written: {error}", file=sys.stderr)


def _whole_lines() -> Iterator[bytes]:
    """What is read, cut at line ends only, and never within a private key."""
    rest = b""
    while read := os.read(0, CHUNK):
        rest += read
        cut = rest.rfind(b"\n") + 1
        if not cut and len(rest) > CHUNK:
            cut = max(rest.rfind(b" ") + 1, rest.rfind(b"\t") + 1) or len(rest)
        begin = _last_begin(rest[:cut])
        if begin is not None and len(rest) - begin < CHUNK:
            cut = begin
        if cut:
            yield rest[:cut]
            rest = rest[cut:]
    if rest:
        yield rest


def _last_begin(lines: bytes) -> int | None:
    """Where a private key begins that does not end here."""
    begins = [found.start() for found in _PEM_BEGIN.finditer(lines)]
    return None if not begins or _PEM_END.search(lines, begins[-1]) else begins[-1]


def _clean(lines: bytes, redactor: Redactor) -> bytes:
    if not redactor.suspects(lines):
        return lines
    text = lines.decode("utf-8", "surrogateescape")
    return redactor.text(text).encode("utf-8", "surrogateescape")


def _write(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


if __name__ == "__main__":
    main()

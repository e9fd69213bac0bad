"""The frames between the engine and the first process of a box. Both ends use this module.

A frame is a header (payload length, kind, number of the command or request) and a payload. The
payload of the kinds that carry several values is a row of length-prefixed byte strings. It needs
nothing but `struct`: its text is also run inside the box, where start-up time counts.
"""

from __future__ import annotations

import struct

HEADER = struct.Struct(">IBI")
CHUNK = 64 << 10
"""Largest payload of bulk data, in bytes."""
MAX_PAYLOAD = 1 << 20
"""Largest payload of all; a peer that announces more is cut off."""
WINDOW = 256 << 10
"""Bytes of a stream that may be on their way unread."""

# Engine -> box.
START, STDIN, STDIN_END, KILL, KILL_ALL, CONSUMED, WRITE, EXPORT = range(1, 9)
# Box -> engine.
HELLO, STARTED, FAILED, STDOUT, STDERR, FED, EXIT, FILE, DATA, DONE = range(32, 42)


def frame(kind: int, number: int, payload: bytes = b"") -> bytes:
    """One frame, ready to be written."""
    return HEADER.pack(len(payload), kind, number) + payload


def pack(*fields: bytes) -> bytes:
    """A row of byte strings as one payload."""
    return b"".join(struct.pack(">I", len(field)) + field for field in fields)


def unpack(payload: bytes) -> list[bytes]:
    """The row that `pack` made.

    Raises:
        ValueError: The payload is not such a row.
    """
    fields = []
    at = 0
    while at < len(payload):
        if at + 4 > len(payload):
            raise ValueError("a field's length is cut short")
        (size,) = struct.unpack_from(">I", payload, at)
        if at + 4 + size > len(payload):
            raise ValueError("a field is cut short")
        fields.append(payload[at + 4 : at + 4 + size])
        at += 4 + size
    return fields

"""Frames of the link between engine and worker.

    0        4         5      6
    | length | version | kind | payload (length bytes, at most 1 MiB)

`length` is big-endian. `kind` is a lane (control, call, span) plus how to read the payload: a whole
message, a chunk of a large one, or the reference that completes it. A large message is cut into
chunks under the SHA-256 of its bytes; a frame of a higher lane may pass between two chunks.
`docs/link.md` says why it is so.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from atp.protocol.errors import LinkBroken
from atp.protocol.json_text import decode

VERSION = 2
MAX_PAYLOAD = 1 << 20
"""Bytes of one frame's payload."""
CHUNK = 256 << 10
"""Messages above this many bytes travel in chunks of this size."""
MAX_MESSAGE = 1 << 30
"""Bytes of one message; a longer one is refused by the sender."""

_HEADER = struct.Struct("!IBB")
_DIGEST = hashlib.sha256().digest_size


class Lane(IntEnum):
    """Order of sending: a lower lane number goes first."""

    CONTROL = 0
    CALL = 1
    SPAN = 2


class _Form(IntEnum):
    WHOLE = 0x00
    CHUNK = 0x10
    REFERENCE = 0x20


@dataclass(frozen=True, slots=True)
class Received:
    """A message that has arrived whole."""

    lane: Lane
    message: Any


def frames(lane: Lane, payload: bytes) -> Iterator[bytes]:
    """The frames that carry one encoded message.

    Raises:
        LinkBroken: The message is longer than `MAX_MESSAGE`.
    """
    if len(payload) <= CHUNK:
        yield _HEADER.pack(len(payload), VERSION, lane | _Form.WHOLE) + payload
        return
    if len(payload) > MAX_MESSAGE:
        raise LinkBroken(f"a message of {len(payload)} bytes; at most {MAX_MESSAGE} can be sent")
    digest = hashlib.sha256(payload).digest()
    for offset in range(0, len(payload), CHUNK):
        chunk = payload[offset : offset + CHUNK]
        yield _HEADER.pack(_DIGEST + len(chunk), VERSION, lane | _Form.CHUNK) + digest + chunk
    size = len(payload).to_bytes(8, "big")
    yield _HEADER.pack(_DIGEST + len(size), VERSION, lane | _Form.REFERENCE) + digest + size


class FrameReader:
    """Turns bytes, cut anywhere, back into messages."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._chunks: dict[bytes, bytearray] = {}

    def feed(self, data: bytes) -> Iterator[Received]:
        """Take bytes in; give the messages they complete.

        Raises:
            LinkBroken: Another version, a frame past its limit, an unknown kind, or a body that is
                not what its digest says.
        """
        self._buffer += data
        offset = 0
        try:
            while len(self._buffer) - offset >= _HEADER.size:
                length, version, kind = _HEADER.unpack_from(self._buffer, offset)
                _check_header(length, version)
                end = offset + _HEADER.size + length
                if len(self._buffer) < end:
                    break
                payload = bytes(memoryview(self._buffer)[offset + _HEADER.size : end])
                offset = end
                received = self._take(kind, payload)
                if received is not None:
                    yield received
        finally:
            del self._buffer[:offset]

    def _take(self, kind: int, payload: bytes) -> Received | None:
        try:
            lane, form = Lane(kind & 0x0F), _Form(kind & 0xF0)
        except ValueError:
            raise LinkBroken(f"a frame of unknown kind {kind:#x}") from None
        if form is _Form.WHOLE:
            return Received(lane, _decoded(payload))
        digest, rest = payload[:_DIGEST], payload[_DIGEST:]
        if form is _Form.CHUNK:
            body = self._chunks.setdefault(digest, bytearray())
            body += rest
            if len(body) > MAX_MESSAGE:
                raise LinkBroken(f"a message of more than {MAX_MESSAGE} bytes arrives")
            return None
        whole = bytes(self._chunks.pop(digest, b""))
        if len(whole) != int.from_bytes(rest, "big") or hashlib.sha256(whole).digest() != digest:
            raise LinkBroken(f"the body {digest.hex()} did not arrive whole")
        return Received(lane, _decoded(whole))


def _decoded(payload: bytes) -> Any:
    try:
        return decode(payload)
    except ValueError as error:
        raise LinkBroken(f"a message that is not JSON: {error}") from error


def _check_header(length: int, version: int) -> None:
    if version != VERSION:
        raise LinkBroken(
            f"the peer speaks link version {version}, this side {VERSION}; make the environment anew "
            "with `atp env create`"
        )
    if length > MAX_PAYLOAD:
        raise LinkBroken(f"a frame of {length} bytes; at most {MAX_PAYLOAD} are allowed")

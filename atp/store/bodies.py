"""Bodies: bytes named by their SHA-256 and kept once.

Up to `INLINE_LIMIT` a body is a row, deflated where that makes it smaller; a larger one is a file
`<database>.bodies/ab/abcd…`, on the disk before the row that promises it. A list of messages is a
body too, `{"prev": digest | null, "items": [digest, …]}` (`atp.protocol.spans`); `resolve` puts it
together.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
import zlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from atp.protocol.errors import StoreError

INLINE_LIMIT = 64 * 1024
"""Bytes up to which a body is kept in the database itself."""

_DEFLATE_FROM = 256  # bytes; below, deflating saves less than a row's overhead
_DIGEST = re.compile(r"[0-9a-f]{64}")

BodyRow: TypeAlias = tuple[str, int, str, bytes | None]
"""(digest, size in bytes, encoding, content): a row of the table `bodies`."""


def digest_of(content: bytes) -> str:
    """The name of a body."""
    return hashlib.sha256(content).hexdigest()


def body_row(digest: str, content: bytes, folder: Path) -> BodyRow:
    """Make a body's row, and its file when it is large. A file is durable on return.

    Raises:
        StoreError: The digest is not the content's.
    """
    if digest_of(content) != digest:
        raise StoreError(
            f"a body of {len(content)} bytes came under a digest that is not its own: {digest!r}"
        )
    if len(content) > INLINE_LIMIT:
        _write_file(_file(digest, folder), content)
        return digest, len(content), "file", None
    if len(content) >= _DEFLATE_FROM:
        # Level 1: within 5 % of level 6 on messages at less CPU.
        deflated = zlib.compress(content, 1)
        if len(deflated) < len(content):
            return digest, len(content), "zlib", deflated
    return digest, len(content), "raw", content


def body_content(row: BodyRow, folder: Path) -> bytes:
    """The bytes behind a row.

    Raises:
        StoreError: The file is gone, or the bytes are not those that were stored.
    """
    digest, size, encoding, content = row
    if encoding == "file":
        try:
            content = _file(digest, folder).read_bytes()
        except OSError as error:
            raise StoreError(
                f"the file of body {digest} cannot be read: {error}", code="body_missing"
            ) from error
        if digest_of(content) != digest:
            raise StoreError(f"the file of body {digest} was changed", code="body_damaged")
    elif encoding == "zlib" and content is not None:
        content = zlib.decompress(content)
    if content is None or len(content) != size:
        raise StoreError(f"body {digest} is not the {size} bytes that were stored", code="body_damaged")
    return content


def check_digest(digest: str) -> None:
    """Refuse a name that is no digest; nothing else ever becomes a path or a key.

    Raises:
        StoreError: It is not 64 lower-case hexadecimal digits.
    """
    if not _is_digest(digest):
        raise StoreError(f"{digest!r} is not the digest of a body", code="body_missing")


def referenced(value: Any) -> tuple[str, ...]:
    """The digests that a body refers to: those of a list body, else none."""
    if not _is_list(value):
        return ()
    prev = () if value["prev"] is None else (value["prev"],)
    return (*prev, *value["items"])


def load_closure(
    digests: Iterable[str], load: Callable[[set[str]], Mapping[str, bytes]], decode: Callable[[bytes], Any]
) -> dict[str, Any]:
    """Bodies as JSON, and all that they refer to, in as many loads as references go deep.

    Args:
        digests: Where to begin.
        load: Gives the content of those it finds.
        decode: Makes JSON of content.

    Raises:
        StoreError: `body_missing`; or a body is not JSON.
    """
    values: dict[str, Any] = {}
    wanted = set(digests)
    while wanted:
        for digest in wanted:
            check_digest(digest)
        found = load(wanted)
        if missing := wanted - found.keys():
            raise StoreError(f"body {min(missing)} is not in the store", code="body_missing")
        for digest, content in found.items():
            try:
                values[digest] = decode(content)
            except ValueError as error:
                raise StoreError(f"body {digest} is not JSON: {error}", code="body_not_json") from error
        wanted = {r for digest in wanted for r in referenced(values[digest])} - values.keys()
    return values


def resolve(values: Mapping[str, Any]) -> dict[str, Any]:
    """Put list bodies together.

    Args:
        values: Bodies as JSON with all that they refer to (`load_closure`).

    Returns:
        Digest -> value; a list body is the list of its resolved items, earlier ones first.

    Raises:
        StoreError: A body refers to itself.
    """
    done: dict[str, Any] = {}
    for start in values:
        path = [start]  # a stack instead of recursion: a conversation's chain is as long as its turns
        open_: set[str] = set()
        while path:
            digest = path[-1]
            if digest in done:
                path.pop()
                continue
            value = values[digest]
            waiting = [r for r in referenced(value) if r not in done]
            if not waiting:
                done[digest] = _joined(value, done) if _is_list(value) else value
                open_.discard(digest)
                path.pop()
            elif digest in open_:
                raise StoreError(f"body {digest} refers to itself", code="body_damaged")
            else:
                open_.add(digest)
                path.extend(waiting)
    return done


def _joined(value: Mapping[str, Any], done: Mapping[str, Any]) -> list[Any]:
    before = [] if value["prev"] is None else done[value["prev"]]
    return [*before, *(done[item] for item in value["items"])]


def _is_list(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and value.keys() == {"prev", "items"}
        and (value["prev"] is None or _is_digest(value["prev"]))
        and isinstance(value["items"], list)
        and all(_is_digest(item) for item in value["items"])
    )


def _is_digest(value: Any) -> bool:
    return isinstance(value, str) and _DIGEST.fullmatch(value) is not None


def _file(digest: str, folder: Path) -> Path:
    check_digest(digest)
    return folder / digest[:2] / digest


def _write_file(path: Path, content: bytes) -> None:
    try:
        if path.exists() and path.stat().st_size == len(content):
            _sync_folder(path.parent)  # whoever renamed it may not have come so far
            return
        for folder in (path.parent.parent, path.parent):
            if not folder.exists():
                folder.mkdir(exist_ok=True)
                _sync_folder(folder.parent)
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=".new-")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
        _sync_folder(path.parent)
    except OSError as error:
        raise StoreError(f"the file of body {path.name} cannot be written: {error}") from error


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

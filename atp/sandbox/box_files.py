"""The files of a box, for its first process. Nothing here ever follows a link."""

from __future__ import annotations

import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = b"/box"
MAX_FILES = 1 << 16
"""Files and directories in a writable space; their number is not bounded by its size."""


def write(path: bytes, data: bytes, append: bytes) -> None:
    """Write one chunk of a file below the root, making its directories; never through a link."""
    directory = os.open(ROOT, os.O_PATH | os.O_DIRECTORY)
    *parents, name = path.split(b"/")
    for parent in parents:
        try:
            os.mkdir(parent, dir_fd=directory)
        except FileExistsError:
            pass
        inner = os.open(parent, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=directory)
        os.close(directory)
        directory = inner
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | (os.O_APPEND if append else os.O_TRUNC)
    target = os.open(name, flags | os.O_NONBLOCK, 0o644, dir_fd=directory)
    os.close(directory)
    try:
        while data:
            data = data[os.write(target, data) :]
    finally:
        os.close(target)


def matching(patterns: list[bytes]) -> Iterator[bytes]:
    """Paths below the root that match one of the patterns; directories are never entered by a link."""
    import fnmatch

    todo = [b""]
    seen = 0
    while todo:
        place = todo.pop()
        with os.scandir(ROOT + b"/" + place) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                seen += 1
                if seen > MAX_FILES:
                    return
                path = place + entry.name
                if entry.is_dir(follow_symlinks=False):
                    todo.append(path + b"/")
                elif any(fnmatch.fnmatchcase(path, pattern) for pattern in patterns):
                    yield path


def count_files(place: bytes) -> int:
    """Inodes in use in a writable space."""
    space = os.statvfs(place)
    return space.f_files - space.f_ffree


def open_regular(path: bytes) -> int | None:
    """A descriptor of a regular file below the root; None when it is anything else, or gone.

    The directories were listed without following links; one that was exchanged for a link since
    leads nowhere but into the box.
    """
    try:
        source = os.open(ROOT + b"/" + path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    if stat.S_ISREG(os.fstat(source).st_mode):
        return source
    os.close(source)
    return None

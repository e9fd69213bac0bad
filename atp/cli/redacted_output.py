"""Standard output and standard error of a command, without secrets.

Everything that a command prints passes here: tables, JSON, notes, progress, log lines, the errors of the
option parser, tracebacks.
"""

from __future__ import annotations

import sys
from typing import Any, TextIO

from atp.protocol.redaction import Redactor

REDACTOR = Redactor()
"""Of this process; it learns the environment as it is at the start, then that of `--env-file`."""


class RedactedStream:
    """A text stream that redacts each text as it is written; in all else the stream behind it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """See `TextIO.write`."""
        self._stream.write(REDACTOR.text(text))
        return len(text)

    def writelines(self, lines: Any) -> None:
        """See `TextIO.writelines`."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def redact_output() -> None:
    """Put redaction before both streams of this process."""
    sys.stdout, sys.stderr = RedactedStream(sys.stdout), RedactedStream(sys.stderr)

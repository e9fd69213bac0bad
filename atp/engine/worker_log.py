"""The log of a worker, with a filter before it that keeps secrets out (`atp.worker.log_filter`)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from atp.protocol.redaction import Redactor

END_TIMEOUT = 10.0
"""Seconds the filter may take to write what it has been given, once nobody is left who could print."""


class WorkerLog:
    """A running filter.

    Args:
        path: The log file, appended to.
        redactor: Decides what is secret.
    """

    def __init__(self, path: Path, redactor: Redactor) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        printed, self.descriptor = os.pipe()
        """Where a worker's descriptors 1 and 2 go."""
        self._handed_over = False
        known, ours = os.pipe()
        try:
            with path.open("ab") as log:
                self._filter = subprocess.Popen(  # noqa: S603  our own interpreter and module
                    [sys.executable, "-P", "-m", "atp.worker.log_filter", str(known)],
                    stdin=printed,
                    stdout=log,
                    pass_fds=(known,),
                    # What it has to know comes through the pipe; no variable is any of its business.
                    env={name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ},
                    start_new_session=True,
                )
        except BaseException:
            os.close(self.descriptor)
            os.close(ours)
            raise
        finally:
            os.close(printed)
            os.close(known)
        with open(ours, "w", encoding="utf-8") as pipe:
            json.dump(redactor.known, pipe)

    def handed_over(self) -> None:
        """The worker has the descriptor: nobody here may hold the filter's input open."""
        if not self._handed_over:
            self._handed_over = True
            os.close(self.descriptor)

    def close(self) -> None:
        """Wait until what was printed is in the file. Blocks; a second time does nothing.

        A process that escaped and still holds the worker's output is not waited for; the log says so.
        """
        self.handed_over()
        try:
            self._filter.wait(END_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._filter.kill()
            self._filter.wait()
            with self.path.open("a", encoding="utf-8") as log:
                log.write("\nthis log is cut off: a process that the worker started still writes to it\n")

"""Starting a worker process, and ending it with every child it has made."""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from atp.engine.worker_log import WorkerLog
from atp.protocol.redaction import Redactor

MARK = "ATP_WORKER_MARK"
"""Environment variable inherited by everything a worker starts, by which it is found again."""

_PASSED = ("HOME", "LANG", "LC_ALL", "PATH", "PYTHONPATH", "TMPDIR", "TZ", "USER")
_PASSED_PREFIXES = ("SSL_", "REQUESTS_CA_", "CURL_CA_")


class WorkerProcess:
    """One worker process and the engine's end of its socket.

    Args:
        python: The interpreter of the harness's environment.
        log: Where its descriptors 1 and 2 go, through the filter.
        environment: Variables of the harness card.
        redactor: Decides what is kept out of the log.
        preload: Modules it imports before it says hello.
    """

    def __init__(
        self,
        python: Path,
        log: Path,
        environment: Mapping[str, str],
        redactor: Redactor,
        preload: Sequence[str] = (),
    ) -> None:
        self.log = log
        output = WorkerLog(log, redactor)
        self._mark = secrets.token_hex(16)
        self.socket, theirs = socket.socketpair()
        lifeline, self._lifeline = os.pipe()
        try:
            self._process = subprocess.Popen(  # noqa: S603  the interpreter is the user's choice
                [str(python), "-P", "-m", "atp.worker", str(theirs.fileno()), str(lifeline), *preload],
                stdin=subprocess.DEVNULL,
                stdout=output.descriptor,
                stderr=output.descriptor,
                pass_fds=(theirs.fileno(), lifeline),
                env=inherited_environment() | dict(environment) | {MARK: self._mark},
                start_new_session=True,
            )
        except BaseException:
            self.socket.close()
            os.close(self._lifeline)
            output.close()
            raise
        finally:
            theirs.close()
            os.close(lifeline)
            output.handed_over()
        self._output = output

    def kill(self) -> int:
        """End the worker and all it has started, also what has left its process group. Blocks until its
        log is complete.

        Returns:
            The worker's exit code, negative for a signal. One that is already on its way out keeps
            its own.
        """
        try:
            self._process.wait(timeout=0.2)
        except subprocess.TimeoutExpired:
            self._process.kill()
        _kill_marked(self._mark)
        code = self._process.wait()
        self._output.close()
        return code

    def close(self) -> None:
        """Kill what is left and give back the descriptors."""
        self.kill()
        self.socket.close()
        os.close(self._lifeline)


def inherited_environment() -> dict[str, str]:
    """The variables that a worker gets of this process's.

    Provider keys stay with the engine: a harness gets its endpoint's key in the start message.
    """
    return {
        name: value
        for name, value in os.environ.items()
        if name in _PASSED or name.startswith(_PASSED_PREFIXES)
    }


def _kill_marked(mark: str) -> None:
    for _ in range(20):  # a fork may slip between listing and killing; the next round finds it
        found = _marked(mark)
        if not found:
            return
        for process in found:
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        psutil.wait_procs(found, timeout=0.5)
    raise ProcessLookupError(f"processes of a worker could not be ended: {_marked(mark)}")


def _marked(mark: str) -> list[psutil.Process]:
    found: list[psutil.Process] = []
    for process in psutil.process_iter():
        try:
            if process.status() != psutil.STATUS_ZOMBIE and process.environ().get(MARK) == mark:
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found

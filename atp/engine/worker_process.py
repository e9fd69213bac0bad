"""Starting a worker process, and ending it with every child it has made."""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

MARK = "ATP_WORKER_MARK"
"""Environment variable inherited by everything a worker starts, by which it is found again."""

_PASSED = ("HOME", "LANG", "LC_ALL", "PATH", "PYTHONPATH", "TMPDIR", "TZ", "USER")
_PASSED_PREFIXES = ("SSL_", "REQUESTS_CA_", "CURL_CA_")


class WorkerProcess:
    """One worker process and the engine's end of its socket.

    Args:
        python: The interpreter of the harness's environment.
        log: Where its descriptors 1 and 2 go.
        environment: Variables of the harness card.
        preload: Modules it imports before it says hello.
    """

    def __init__(
        self, python: Path, log: Path, environment: Mapping[str, str], preload: Sequence[str] = ()
    ) -> None:
        self.log = log
        self._mark = secrets.token_hex(16)
        self.socket, theirs = socket.socketpair()
        lifeline, self._lifeline = os.pipe()
        log.parent.mkdir(parents=True, exist_ok=True)
        try:
            with log.open("ab") as output:
                self._process = subprocess.Popen(  # noqa: S603  the interpreter is the user's choice
                    [str(python), "-P", "-m", "atp.worker", str(theirs.fileno()), str(lifeline), *preload],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    pass_fds=(theirs.fileno(), lifeline),
                    env=inherited_environment() | dict(environment) | {MARK: self._mark},
                    start_new_session=True,
                )
        except BaseException:
            self.socket.close()
            os.close(self._lifeline)
            raise
        finally:
            theirs.close()
            os.close(lifeline)

    def kill(self) -> int:
        """End the worker and all it has started, also what has left its process group. Blocks.

        Returns:
            The worker's exit code, negative for a signal. One that is already on its way out keeps
            its own.
        """
        try:
            self._process.wait(timeout=0.2)
        except subprocess.TimeoutExpired:
            self._process.kill()
        _kill_marked(self._mark)
        return self._process.wait()

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

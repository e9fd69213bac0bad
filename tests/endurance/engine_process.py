"""`atp` as a process that can be stopped, continued and killed; its database is read from here."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from atp.protocol.spans import SpanKind, SpanStatus
from atp.store.rows import AttemptRow
from atp.store.store import Store

LEASE = 2.0
"""Seconds; the engine's own would make these tests wait half a minute."""

HEARTBEAT_TIMEOUT = 3.0
BUSY_TIMEOUT = 1.0

_ENGINE = f"""
from atp.cli.app import main
from atp.engine import lease, workers
from atp.store import database
lease.LEASE, workers.HEARTBEAT_TIMEOUT, database.BUSY_TIMEOUT = {LEASE}, {HEARTBEAT_TIMEOUT}, {BUSY_TIMEOUT}
main()
"""


@dataclass
class Engine:
    """One running command."""

    process: subprocess.Popen[bytes]
    log: Path

    @property
    def alive(self) -> bool:
        """Whether it has not ended."""
        return self.process.poll() is None

    def stop(self) -> None:
        """It stands still."""
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """It goes on where it stood."""
        self.process.send_signal(signal.SIGCONT)

    def end(self) -> tuple[int, str]:
        """Wait for its end; gives its exit code and all that it said."""
        return self.process.wait(), self.log.read_text(encoding="utf-8")


@dataclass
class Bench:
    """A database, and engines that work on it."""

    folder: Path
    engines: list[Engine] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"sqlite:///{self.folder / 'atp.db'}"

    def start(self, *arguments: str, before: str = "") -> Engine:
        """Start `atp ARGUMENTS` on the database; `before` is Python that comes first."""
        log = self.folder / f"engine-{len(self.engines)}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-c", before + _ENGINE, *arguments, "--db", self.url],
                stdout=output,
                stderr=output,
                env=os.environ | {"ATP_HOME": str(self.folder / "home")},
            )
        self.engines.append(Engine(process, log))
        return self.engines[-1]

    def run(self, script: str, tasks: Sequence[str], *more: str, before: str = "") -> Engine:
        """Start an experiment of the ledger with a script."""
        path = self.folder / "script.yaml"
        path.write_text(script, encoding="utf-8")
        chosen = [word for task in tasks for word in ("--task", task)]
        model = f"scripted/file:{path}"
        begin = ["run", "-b", "ledger", "-H", "thinloop", "-m", model, "--retries", "0"]
        return self.start(*begin, *chosen, *more, before=before)

    def attempts(self) -> list[AttemptRow]:
        """All attempts of the newest experiment; none while there is no experiment."""
        with self.opened() as store:
            return store.attempts(store.experiment().id) if store and store.experiments() else []

    def in_tool(self) -> list[str]:
        """The runs that have a tool call open."""
        with self.opened() as store:
            if store is None or not store.experiments():
                return []
            return [
                attempt.run_id
                for attempt in store.attempts(store.experiment().id)
                for span in store.spans(attempt.run_id)
                if span.kind is SpanKind.TOOL and span.status is SpanStatus.OPEN
            ]

    @contextmanager
    def opened(self) -> Iterator[Store | None]:
        """The database for reading; None while it is not there."""
        if not (self.folder / "atp.db").exists() or not (self.folder / "home" / "logs").exists():
            yield None
            return
        with Store.open(self.url, readonly=True) as store:
            yield store


@contextmanager
def bench(folder: Path) -> Iterator[Bench]:
    """A bench whose engines are gone at the end, whatever the test did."""
    made = Bench(folder)
    try:
        yield made
    finally:
        for engine in made.engines:
            if engine.alive:
                engine.process.kill()
            engine.process.wait()


def until(condition: Callable[[], object], seconds: float = 120.0) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)

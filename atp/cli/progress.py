"""How a run shows itself on a terminal: one line that moves, and a line for each thing gone wrong."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from atp.cli.options import Settings
from atp.cli.output import printable
from atp.cli.redacted_output import REDACTOR

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from atp.protocol.trace import Grade, TaskTrace

SHOWN_PROBLEMS = 20
"""Lines about single attempts; the rest is counted, and told of in one line at the end."""


@contextmanager
def watching(settings: Settings, slots: int | None) -> Iterator[Watcher]:
    """A watcher that draws a bar where there is a terminal, and else only says what went wrong.

    Args:
        settings: `-q` silences it.
        slots: How many will run; None when that is not known.
    """
    if settings.verbosity < 0 or not sys.stderr.isatty():
        watcher = Watcher(settings, None, None)
        try:
            yield watcher
        finally:
            watcher.sum_up()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}", markup=False),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        watcher = Watcher(settings, progress, progress.add_task("", total=slots))
        try:
            yield watcher
        finally:
            watcher.sum_up()


class Watcher:
    """Implements `atp.engine.run.RunEvents`."""

    def __init__(self, settings: Settings, progress: Progress | None, bar: TaskID | None) -> None:
        self._settings = settings
        self._progress = progress
        self._bar = bar
        self._counts: Counter[str] = Counter()
        self._shown = 0
        self._unshown: Counter[str] = Counter()

    def attempt_started(self, run_id: str, cell_id: str, task_id: str) -> None:
        """See `RunEvents`."""
        self._counts["running"] += 1
        self._draw()

    def attempt_ended(self, run_id: str, cell_id: str, trace: TaskTrace, retried: bool) -> None:
        """See `RunEvents`."""
        self._counts["running"] -= 1
        self._counts[str(trace.status)] += 1
        if trace.error is not None:
            again = "; trying again" if retried else ""
            self._say(
                str(trace.status), f"{trace.task_id} ({run_id}): {trace.status}: {trace.error.message}{again}"
            )
        if trace.checks is not None and trace.checks.agree is False:
            self._say(
                "records differ", f"{trace.task_id} ({run_id}): records differ: {trace.checks.differences[0]}"
            )
        self._draw(advance=0 if retried else 1)

    def graded(self, run_id: str, cell_id: str, verdict: Grade) -> None:
        """See `RunEvents`."""
        if verdict.score is None:
            self._say("no score", f"{run_id}: no score: {verdict.reason}")

    def sum_up(self) -> None:
        """Tell how many problems had no line of their own."""
        if self._unshown:
            kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(self._unshown.items()))
            self._print(f"{self._unshown.total()} more problems ({kinds}); `atp results` has them all")

    def _draw(self, advance: int = 0) -> None:
        if self._progress is not None and self._bar is not None:
            shown = ", ".join(f"{count} {what}" for what, count in self._counts.items() if count)
            self._progress.update(self._bar, advance=advance, description=shown)

    def _say(self, kind: str, text: str) -> None:
        if self._shown == SHOWN_PROBLEMS:
            self._unshown[kind] += 1
            return
        self._shown += 1
        # Before it is cut: what is left of a secret could no longer be told.
        self._print(printable(REDACTOR.text(text))[:500])

    def _print(self, line: str) -> None:
        if self._settings.verbosity < 0:
            return
        if self._progress is not None:
            self._progress.console.print(line, markup=False, highlight=False)
        else:
            print(line, file=sys.stderr)

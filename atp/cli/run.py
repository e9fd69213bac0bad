"""`atp run` and `atp resume`: start an experiment, or take one up again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from atp.cli.experiment_options import with_run_options, with_typed_options
from atp.cli.options import Settings, command
from atp.cli.output import note, print_facts, print_json, print_table

if TYPE_CHECKING:
    from atp.engine.experiment import OnStart
    from atp.engine.plan import Plan
    from atp.engine.run import Run

INTERRUPTED = 130
MISSING_SCORES = 1


@command
@with_run_options
def run(
    settings: Settings,
    asked: dict[str, Any],
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would run; start nothing.")] = False,
) -> None:
    """Run benchmarks through harnesses; exit 1 when a slot ends without a score."""
    import os

    from atp.cli import event_loop
    from atp.engine.options import DEFAULT_DEADLINE, RunOptions
    from atp.engine.plan import plan

    asked.setdefault("limits", {}).setdefault("deadline", DEFAULT_DEADLINE)
    planned = plan(RunOptions.model_validate(asked), os.environ, settings.db)
    if dry_run:
        _print_plan(settings, planned)
        return
    event_loop.run(_start(settings, planned))


@command
@with_typed_options
def resume(
    settings: Settings,
    typed: dict[str, Any],
    *,
    experiment: Annotated[
        str | None,
        typer.Argument(metavar="[EXPERIMENT]", help="Id, beginning of it, or name. [default: the newest]"),
    ] = None,
    allow_drift: Annotated[
        bool,
        typer.Option(
            "--allow-drift", help="Go on although something has changed; its cells are marked as mixed."
        ),
    ] = False,
) -> None:
    """Grade what is ungraded, and run the slots that have no gradable attempt.

    What can change an outcome has to be what it was: an option that is given is held against the one the
    experiment began with. A secret among the options is not stored and has to be given again.
    """
    from atp.cli import event_loop

    event_loop.run(_resume(settings, experiment, typed, allow_drift))


async def _start(settings: Settings, planned: Plan) -> None:
    from atp.cli.progress import watching
    from atp.engine.experiment import start
    from atp.store.store import Store

    note(settings, f"experiment {planned.experiment.id}: {len(planned.slots)} slots")
    on_start, was_interrupted = _interruptible(settings)
    with Store.open(settings.db) as store, watching(settings, len(planned.slots)) as events:
        await start(store, planned, events, on_start)
    _conclude(settings, planned.experiment.id, was_interrupted)


async def _resume(settings: Settings, ref: str | None, changes: dict[str, Any], allow_drift: bool) -> None:
    from atp.cli.progress import watching
    from atp.engine.experiment import resume as resume_experiment
    from atp.store.store import Store

    on_start, was_interrupted = _interruptible(settings)
    with Store.open(settings.db, readonly=True) as reader:
        ref = reader.experiment(ref).id  # a database that is not there is not made by asking for it
    with Store.open(settings.db) as store, watching(settings, None) as events:
        experiment_id = await resume_experiment(
            store, ref, changes, events, on_start, allow_drift=allow_drift
        )
    _conclude(settings, experiment_id, was_interrupted)


def _interruptible(settings: Settings) -> tuple[OnStart, list[bool]]:
    import asyncio
    import signal

    interrupted: list[bool] = []

    def on_start(started: Run) -> None:
        def interrupt() -> None:
            again = bool(interrupted)
            interrupted.append(True)
            note(
                settings,
                "interrupted: cancelling now"
                if again
                else "interrupted: nothing more is started; once more to cancel what runs",
            )
            started.interrupt()

        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, interrupt)

    return on_start, interrupted


def _conclude(settings: Settings, experiment_id: str, interrupted: list[bool]) -> None:
    from atp.cli.results import print_results
    from atp.engine.results import results
    from atp.store.store import Store

    with Store.open(settings.db, readonly=True) as store:
        outcome = results(store, experiment_id)
    print_results(settings, outcome)
    if interrupted:
        note(settings, f"interrupted; to go on: atp resume {experiment_id}")
        raise typer.Exit(INTERRUPTED)
    if any("budget" in cell["missing_by_reason"] for cell in outcome["cells"]):
        note(settings, f"the budget is spent; to go on: atp resume {experiment_id} --budget USD")
        raise typer.Exit(MISSING_SCORES)
    if any(cell["missing"] for cell in outcome["cells"]):
        note(settings, f"some slots have no score; to try again: atp resume {experiment_id}")
        raise typer.Exit(MISSING_SCORES)


def _print_plan(settings: Settings, planned: Plan) -> None:
    from atp.engine.forecast import forecast

    expected = forecast(planned)
    if settings.json:
        print_json(expected)
        return
    print_table(
        ("benchmark", "harness", "model", ">slots"),
        [(c["benchmark"], c["harness"], c["model"], c["scheduled"]) for c in expected["cells"]],
    )
    print_facts({key: value for key, value in expected.items() if key.startswith("most_")})

"""`atp run` and `atp resume`: start an experiment, or take one up again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from atp.cli.experiment_options import with_experiment_file
from atp.cli.options import Option, Settings, command, options_by_owner
from atp.cli.output import note, print_facts, print_json, print_table

if TYPE_CHECKING:
    from atp.engine.experiment import OnStart
    from atp.engine.plan import Plan
    from atp.engine.run import Run

INTERRUPTED = 130
MISSING_SCORES = 1

Concurrency = Annotated[int, typer.Option("-c", "--concurrency", min=1, help="Attempts at once.")]
Workers = Annotated[int, typer.Option("--workers", min=0, help="Worker processes; 0: in this process.")]
Retries = Annotated[int, typer.Option("--retries", min=0, help="Further tries after faults that may pass.")]
Budget = Annotated[
    float | None, typer.Option("--budget", min=0, help="USD of the experiment; free to change on resume.")
]
Python = Annotated[
    Path | None, typer.Option("--python", metavar="PATH", help="Run the harness on this interpreter.")
]


@command
@with_experiment_file
def run(
    settings: Settings,
    benchmark: Annotated[
        list[str] | None, typer.Option("-b", "--benchmark", metavar="BENCHMARK", help="Or file:TASKS.jsonl.")
    ] = None,
    harness: Annotated[list[str] | None, typer.Option("-H", "--harness", metavar="HARNESS")] = None,
    model: Annotated[
        list[str] | None,
        typer.Option("-m", "--model", metavar="MODEL", help="provider/model, or scripted/NAME."),
    ] = None,
    count: Annotated[int, typer.Option("-n", min=1, help="Tasks, sampled without replacement.")] = 40,
    everything: Annotated[bool, typer.Option("--all", help="All tasks.")] = False,
    seed: Annotated[int, typer.Option("--seed", help="Of the sample.")] = 0,
    task: Annotated[
        list[str] | None, typer.Option("--task", metavar="ID", help="This task, no sample.")
    ] = None,
    repeats: Annotated[int, typer.Option("--repeats", min=1, help="Slots for each task.")] = 1,
    concurrency: Concurrency = 8,
    workers: Workers = 1,
    python: Python = None,
    base_url: Annotated[
        str | None, typer.Option("--base-url", metavar="URL", help="Of an OpenAI-compatible server.")
    ] = None,
    user_model: Annotated[
        str | None,
        typer.Option("--user-model", metavar="MODEL", help="Plays the user of a conversation."),
    ] = None,
    user_base_url: Annotated[
        str | None,
        typer.Option("--user-base-url", metavar="URL", help="Of its server. [default: --base-url]"),
    ] = None,
    max_turns: Annotated[
        int | None, typer.Option("--max-turns", min=1, help="Model calls of an attempt.")
    ] = None,
    deadline: Annotated[
        float | None, typer.Option("--deadline", min=0.001, help="Seconds of an attempt. [default: 1800]")
    ] = None,
    model_timeout: Annotated[
        float | None, typer.Option("--model-timeout", min=0.001, help="Seconds of one try of a model call.")
    ] = None,
    max_output_tokens: Annotated[
        int | None, typer.Option("--max-output-tokens", min=1, help="Of one reply.")
    ] = None,
    max_total_tokens: Annotated[
        int | None, typer.Option("--max-total-tokens", min=1, help="Of an attempt.")
    ] = None,
    max_cost: Annotated[
        float | None, typer.Option("--max-cost", min=0.000001, help="USD of an attempt.")
    ] = None,
    budget: Budget = None,
    prices: Annotated[
        Path | None, typer.Option("--prices", metavar="FILE", help="Prices of models, before the built-in.")
    ] = None,
    temperature: Annotated[
        float | None, typer.Option("--temperature", min=0, help="[default: the provider's]")
    ] = None,
    retries: Retries = 2,
    option: Option = None,
    no_monitor: Annotated[
        bool, typer.Option("--no-monitor", help="Run without an instrument; the result says so.")
    ] = False,
    name: Annotated[str | None, typer.Option("--name", help="A name for the experiment.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would run; start nothing.")] = False,
) -> None:
    """Run benchmarks through harnesses; exit 1 when a slot ends without a score."""
    import os

    from atp.cli import event_loop
    from atp.engine.options import DEFAULT_DEADLINE, RunOptions
    from atp.engine.plan import plan
    from atp.protocol.model import Limits, Sampling

    options = RunOptions(
        benchmarks=tuple(dict.fromkeys(benchmark or ())),
        harnesses=tuple(dict.fromkeys(harness or ())),
        models=tuple(dict.fromkeys(model or ())),
        count=None if everything else count,
        seed=seed,
        tasks=tuple(task or ()),
        repeats=repeats,
        sampling=Sampling(temperature=temperature, max_output_tokens=max_output_tokens),
        limits=Limits(
            max_turns=max_turns,
            deadline=DEFAULT_DEADLINE if deadline is None else deadline,
            model_timeout=model_timeout,
            max_total_tokens=max_total_tokens,
            max_cost=max_cost,
        ),
        base_url=base_url,
        user_model=user_model,
        user_base_url=user_base_url,
        monitored=not no_monitor,
        name=name,
        concurrency=concurrency,
        workers=workers,
        python=python,
        prices=prices,
        budget=budget,
        retries=retries,
        **options_by_owner(option or [], ("benchmark", "harness")),
    )
    planned = plan(options, os.environ, settings.db)
    if dry_run:
        _print_plan(settings, planned)
        return
    event_loop.run(_start(settings, planned))


@command
def resume(
    settings: Settings,
    experiment: Annotated[
        str | None,
        typer.Argument(metavar="[EXPERIMENT]", help="Id, beginning of it, or name. [default: the newest]"),
    ] = None,
    concurrency: Concurrency = 8,
    workers: Workers = 1,
    python: Python = None,
    retries: Retries = 2,
    budget: Budget = None,
    option: Annotated[
        list[str] | None,
        typer.Option(
            "-o", metavar="WHOSE.KEY=V", help="A secret the experiment began with; it is not stored."
        ),
    ] = None,
) -> None:
    """Grade what is ungraded, and run the slots that have no gradable attempt."""
    from atp.cli import event_loop

    pace = {
        "concurrency": concurrency,
        "workers": workers,
        "python": python,
        "retries": retries,
        "budget": budget,
        **options_by_owner(option or [], ("benchmark", "harness")),
    }
    event_loop.run(_resume(settings, experiment, pace))


async def _start(settings: Settings, planned: Plan) -> None:
    from atp.cli.progress import watching
    from atp.engine.experiment import start
    from atp.store.store import Store

    note(settings, f"experiment {planned.experiment.id}: {len(planned.slots)} slots")
    on_start, was_interrupted = _interruptible(settings)
    with Store.open(settings.db) as store, watching(settings, len(planned.slots)) as events:
        await start(store, planned, events, on_start)
    _conclude(settings, planned.experiment.id, was_interrupted)


async def _resume(settings: Settings, ref: str | None, pace: dict[str, Any]) -> None:
    from atp.cli.progress import watching
    from atp.engine.experiment import resume as resume_experiment
    from atp.store.store import Store

    on_start, was_interrupted = _interruptible(settings)
    with Store.open(settings.db, readonly=True) as reader:
        ref = reader.experiment(ref).id  # a database that is not there is not made by asking for it
    with Store.open(settings.db) as store, watching(settings, None) as events:
        experiment_id = await resume_experiment(store, ref, pace, events, on_start)
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

"""`atp results`: what an experiment gave."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from atp.cli.options import Settings, command
from atp.cli.output import print_json, print_table, printable


@command
def results(
    settings: Settings,
    experiment: Annotated[
        str | None,
        typer.Argument(metavar="[EXPERIMENT]", help="Id, beginning of it, or name. [default: the newest]"),
    ] = None,
    attempts: Annotated[bool, typer.Option("--attempts", help="Show every attempt.")] = False,
) -> None:
    """Show an experiment's cells; exit 1 when a slot has no score."""
    from atp.engine.results import results as results_of
    from atp.store.store import Store

    with Store.open(settings.db, readonly=True) as store:
        outcome = results_of(store, store.experiment(experiment).id)
    print_results(settings, outcome, attempts)
    if any(cell["missing"] for cell in outcome["cells"]):
        raise typer.Exit(1)


def print_results(settings: Settings, outcome: dict[str, Any], attempts: bool = False) -> None:
    """Print results: JSON, or a table of cells with what is missing and why."""
    if settings.json:
        print_json(outcome)
        return
    print(f"experiment {outcome['experiment']}\n")
    print_table(
        ("benchmark", "harness", "model", ">score", "95%", ">graded", "records"),
        [_row(cell) for cell in outcome["cells"]],
    )
    _print_named_scores(outcome["cells"])
    for cell in outcome["cells"]:
        if cell["missing"]:
            low, high = cell["bounds"]
            print(
                f"\n{cell['benchmark']} x {cell['harness']} x {cell['model']}: {cell['missing']} of "
                f"{cell['scheduled']} slots have no score; with them the mean is {low:.3f} to {high:.3f}"
            )
            for reason, count in cell["missing_by_reason"].items():
                print(printable(f"  {count} x {reason}"))
    spent = [cell["spent"] for cell in outcome["cells"] if cell["spent"] is not None]
    if spent:
        print(f"\ncost: {sum(spent):.4g} USD, all tries together, as far as it is known")
    if attempts:
        print()
        print_table(
            ("run", "task", "model", ">try", "status", ">score", "reason"),
            [
                (
                    a["run_id"],
                    a["task_id"],
                    a["model"],
                    a["try"],
                    a["status"],
                    _number(a["score"]),
                    a["score_reason"],
                )
                for a in outcome["attempts"]
            ],
        )
    for played in dict.fromkeys(
        (c["benchmark"], c["user_model"]) for c in outcome["cells"] if c["user_model"]
    ):
        print("\nuser of {}: {}".format(*played))
    for mark, meaning in _MARKS.items():
        if any(cell[mark] for cell in outcome["cells"]):
            print(f"\n{meaning}")


def _print_named_scores(cells: list[dict[str, Any]]) -> None:
    several = [cell for cell in cells if len(cell["scores"]) > 1]
    if several:
        print()
    for cell in several:
        means = ", ".join(f"{name} {mean:.3f}" for name, mean in cell["scores"].items())
        print(f"{cell['benchmark']} x {cell['harness']} x {cell['model']}: {means}")


_MARKS = {
    "simulated": "* simulated: a script answered, not a model.",
    "mixed": "! mixed: resumed with something changed that can change an outcome.",
}


def _row(cell: dict[str, Any]) -> tuple[Any, ...]:
    marks = "".join(f" {_MARKS[mark][0]}" for mark in _MARKS if cell[mark])
    return (
        cell["benchmark"],
        cell["harness"],
        cell["model"] + marks,
        _number(cell["mean"]),
        f"{cell['ci95'][0]:.2f}-{cell['ci95'][1]:.2f}" if cell["ci95"] else None,
        f"{cell['graded']}/{cell['scheduled']}",
        _records(cell["records"]),
    )


def _records(counts: dict[str, int]) -> list[str]:
    alike = len(counts) == 1
    return [verdict if alike else f"{count} x {verdict}" for verdict, count in counts.items()]


def _number(value: float | None) -> str | None:
    return None if value is None else f"{value:.3f}"

"""`atp list` and `atp show`: what there is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from atp.cli.options import Settings, assignments, command
from atp.cli.output import print_facts, print_json, print_table
from atp.protocol.errors import InvalidInput

if TYPE_CHECKING:
    from atp.protocol.cards import BenchmarkCard, HarnessCard

app = typer.Typer(help="Show what there is.", no_args_is_help=True, rich_markup_mode=None)
show = typer.Typer(help="Show one card.", no_args_is_help=True, rich_markup_mode=None)

Where = Annotated[
    list[str] | None,
    typer.Option("--where", metavar="KEY=VALUE", help="Only what has this value; may be repeated."),
]
Name = Annotated[str, typer.Argument(metavar="NAME", help="As `atp list` shows it.")]


@app.command("benchmarks")
@command
def list_benchmarks(settings: Settings, where: Where = None) -> None:
    """Show the benchmarks."""
    from atp import registry

    rows = _selected([_benchmark_row(card) for card in registry.benchmarks().values()], where)
    if settings.json:
        print_json({"benchmarks": rows})
        return
    columns = ("name", "category", "year", "difficulty", "tasks", "missing")
    _table(columns, rows)


@app.command("harnesses")
@command
def list_harnesses(settings: Settings, where: Where = None) -> None:
    """Show the harnesses."""
    from atp import registry

    rows = _selected([_harness_row(card) for card in registry.harnesses().values()], where)
    if settings.json:
        print_json({"harnesses": rows})
        return
    _table(("name", "package", "version", "dialects", "missing"), rows)


@app.command("models")
@command
def list_models(settings: Settings, where: Where = None) -> None:
    """Show the providers and the scripted models."""
    rows = _selected(_model_rows(), where)
    if settings.json:
        print_json({"models": rows})
        return
    _table(("name", "title", "dialects", "missing"), rows)


@app.command("metrics")
@command
def list_metrics(settings: Settings, where: Where = None) -> None:
    """Show the metrics."""
    rows = _selected([], where)
    if settings.json:
        print_json({"metrics": rows})
        return
    _table(("name",), rows)


@show.command("benchmark")
@command
def show_benchmark(settings: Settings, name: Name) -> None:
    """Show a benchmark's card."""
    from atp import registry

    _card(settings, registry.benchmark(name).card.model_dump(mode="json"))


@show.command("harness")
@command
def show_harness(settings: Settings, name: Name) -> None:
    """Show a harness's card."""
    from atp import registry

    _card(settings, registry.harness(name).model_dump(mode="json"))


def _card(settings: Settings, card: dict[str, Any]) -> None:
    if settings.json:
        print_json(card)
    else:
        print_facts(card)


def _benchmark_row(card: BenchmarkCard) -> dict[str, Any]:
    missing = _missing_for(card)
    row = card.model_dump(
        mode="json",
        include={
            "name",
            "title",
            "zone",
            "category",
            "capability",
            "year",
            "era",
            "difficulty",
            "tasks",
            "sandbox",
            "dataset",
            "revision",
            "license",
            "data_seen",
        },
    )
    return row | {"ready": missing is None, "missing": missing}


def _missing_for(card: BenchmarkCard) -> str | None:
    from atp.engine import datasets, environments

    if card.data is not None and datasets.find(card.data).path is None:
        return datasets.command_for(card.data)
    return None if environments.find(card) is not None else environments.command_for(card)


def _harness_row(card: HarnessCard) -> dict[str, Any]:
    from atp.engine import environments

    made = environments.find(card) is not None
    return {
        "name": card.name,
        "title": card.title,
        "package": card.package,
        "version": card.version,
        "dialects": [str(dialect) for dialect in card.dialects],
        "ready": made,
        "missing": None if made else environments.command_for(card),
    }


def _model_rows() -> list[dict[str, Any]]:
    import os

    from atp.models.providers import PROVIDERS, SCRIPTED_DIALECTS
    from atp.models.ref import SCRIPTED, SCRIPTED_MODELS

    rows: list[dict[str, Any]] = [
        {
            "name": f"{SCRIPTED}/{name}",
            "title": title,
            "simulated": True,
            "dialects": [str(dialect) for dialect in SCRIPTED_DIALECTS],
            "ready": True,
            "missing": None,
        }
        for name, title in SCRIPTED_MODELS.items()
    ]
    for provider in PROVIDERS.values():
        has_key = bool(os.environ.get(provider.key_variable))
        rows.append(
            {
                "name": f"{provider.name}/MODEL",
                "title": provider.title,
                "simulated": False,
                "dialects": [str(dialect) for dialect in provider.dialects],
                "ready": has_key,
                "missing": None if has_key else f"export {provider.key_variable}=...",
            }
        )
    return rows


def _selected(rows: list[dict[str, Any]], where: list[str] | None) -> list[dict[str, Any]]:
    wanted = assignments(where or [], "--where")
    for key in wanted:
        if rows and key not in rows[0]:
            raise InvalidInput(f"--where {key}=...: there is no {key!r}; keys are {', '.join(rows[0])}")
    return [row for row in rows if all(value in _shown(row[key]) for key, value in wanted.items())]


def _shown(value: Any) -> Sequence[str]:
    if isinstance(value, list):
        return [str(item) for item in value]
    return ["true" if value is True else "false" if value is False else str(value)]


def _table(columns: Sequence[str], rows: Sequence[dict[str, Any]]) -> None:
    numbers = {"tasks", "year"}
    print_table(
        [f">{name}" if name in numbers else name for name in columns],
        [[row[name] for name in columns] for row in rows],
    )

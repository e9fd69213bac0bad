"""`atp env`: the Python environments that harnesses run in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from atp.cli.options import Settings, command
from atp.cli.output import note, print_json, print_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from atp.engine.environments import EnvironmentInfo

app = typer.Typer(
    help="Make and remove the environments of harnesses.", no_args_is_help=True, rich_markup_mode=None
)

Harness = Annotated[str, typer.Argument(metavar="HARNESS", help="As `atp list harnesses` shows it.")]


@app.command("create")
@command
def create(settings: Settings, harness: Harness) -> None:
    """Make a harness's environment in ATP_HOME from its pinned, hashed requirements."""
    import asyncio

    from atp import registry
    from atp.engine import environments

    card = registry.harness(harness)
    note(settings, f"making the environment of {card.name} ({card.package} {card.version})")
    info = asyncio.run(environments.create(card))
    [row] = _rows([info])
    if settings.json:
        print_json(row)
    else:
        _print_table([row])


@app.command("list")
@command
def list_environments(
    settings: Settings,
    harness: Annotated[str | None, typer.Argument(metavar="[HARNESS]", help="One of them; else all.")] = None,
) -> None:
    """Show the environments there are."""
    from atp import registry
    from atp.engine import environments

    cards = [registry.harness(harness)] if harness is not None else list(registry.harnesses().values())
    if harness is not None:
        environments.python_for(cards[0])
    rows = _rows(environments.existing(cards))
    if settings.json:
        print_json({"environments": rows} if harness is None else rows[0])
    else:
        _print_table(rows)


@app.command("remove")
@command
def remove(settings: Settings, harness: Harness) -> None:
    """Remove a harness's environments, those of older pins too."""
    from atp import registry
    from atp.engine import environments

    removed = [str(folder) for folder in environments.remove(registry.harness(harness))]
    if settings.json:
        print_json({"harness": harness, "removed": removed})
    else:
        print_table(("removed",), [[folder] for folder in removed])


def _rows(infos: Sequence[EnvironmentInfo]) -> list[dict[str, Any]]:
    from atp.engine import environments

    return [
        {
            "harness": info.harness,
            "python": str(info.python),
            "packages": dict(environments.packages(info.python)),
            "path": str(info.path) if info.path else None,
        }
        for info in infos
    ]


def _print_table(rows: Sequence[dict[str, Any]]) -> None:
    print_table(
        ("harness", ">packages", "python"),
        [(row["harness"], len(row["packages"]), row["python"]) for row in rows],
    )

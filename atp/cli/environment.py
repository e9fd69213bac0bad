"""`atp env`: the Python environments that harnesses, and some benchmarks, run in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from atp.cli.options import Settings, command
from atp.cli.output import note, print_json, print_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from atp.engine.environments import EnvironmentInfo, Owner

app = typer.Typer(
    help="Make and remove the environments of harnesses, and of benchmarks that need one.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME", help="A harness, or a benchmark whose package has an environment of its own."
    ),
]


@app.command("create")
@command
def create(settings: Settings, name: Name) -> None:
    """Make an environment in ATP_HOME from its pinned, hashed requirements."""
    import asyncio

    from atp.engine import environments

    owner = _owner(name)
    note(settings, f"making the environment of {name}")
    info = asyncio.run(environments.create(owner))
    [row] = _rows([info])
    if settings.json:
        print_json(row)
    else:
        _print_table([row])


@app.command("list")
@command
def list_environments(
    settings: Settings,
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="One of them; else all.")] = None,
) -> None:
    """Show the environments there are."""
    from atp.engine import environments

    owners = [_owner(name)] if name is not None else list(_owners().values())
    if name is not None:
        environments.python_for(owners[0])
    rows = _rows(environments.existing(owners))
    if settings.json:
        print_json({"environments": rows} if name is None else rows[0])
    else:
        _print_table(rows)


@app.command("remove")
@command
def remove(settings: Settings, name: Name) -> None:
    """Remove an owner's environments, those of older pins too."""
    from atp.engine import environments

    owner = _owner(name)
    removed = [str(folder) for folder in environments.remove(owner)]
    if settings.json:
        print_json({**_named(name, environments.kind_of(owner)), "removed": removed})
    else:
        print_table(("removed",), [[folder] for folder in removed])


def _owners() -> dict[str, Owner]:
    from atp import registry
    from atp.engine.hub.environment import NAME, recipe
    from atp.protocol.errors import PluginError

    harnesses = registry.harnesses()
    benchmarks = {name: card for name, card in registry.benchmarks().items() if card.worker is not None}
    for name in harnesses.keys() & benchmarks.keys():
        raise PluginError(f"a harness and a benchmark with an environment are both called {name!r}")
    return {**harnesses, **benchmarks, NAME: recipe()}


def _owner(name: str) -> Owner:
    from atp import registry
    from atp.engine.own_agents import is_own_agent
    from atp.protocol.errors import UnknownName
    from atp.protocol.names import nearest

    if is_own_agent(name):
        return registry.harness(name)
    owners = _owners()
    if name not in owners:
        raise UnknownName(
            f"nothing that has an environment is called {name!r}{nearest(name, owners)}; those are: "
            f"{', '.join(owners)}"
        )
    return owners[name]


def _named(name: str, kind: str) -> dict[str, Any]:
    return {"name": name, "kind": kind, "harness": name if kind == "harness" else None}


def _rows(infos: Sequence[EnvironmentInfo]) -> list[dict[str, Any]]:
    from atp.engine import environments

    return [
        {
            **_named(info.name, info.kind),
            "python": str(info.python),
            "packages": dict(environments.packages(info.python)),
            "path": str(info.path) if info.path else None,
        }
        for info in infos
    ]


def _print_table(rows: Sequence[dict[str, Any]]) -> None:
    print_table(
        ("name", "kind", ">packages", "python"),
        [(row["name"], row["kind"], len(row["packages"]), row["python"]) for row in rows],
    )

"""`atp data`: data of others, fetched at pinned versions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from atp.cli.options import Settings, command
from atp.cli.output import note, print_json, print_table

if TYPE_CHECKING:
    from atp.engine.datasets import DataInfo
    from atp.protocol.cards import DataSource, HubSource

app = typer.Typer(help="Fetch and check the data of benchmarks.", no_args_is_help=True, rich_markup_mode=None)

AnyName = Annotated[str | None, typer.Argument(metavar="[NAME]", help="One of them; else all.")]


@app.command("get")
@command
def get(settings: Settings, name: AnyName = None) -> None:
    """Fetch data into ATP_HOME."""
    import asyncio

    from atp.engine import datasets

    infos = []
    for source in _chosen(name):
        info = datasets.find(source)
        note(settings, f"fetching {info.origin} at {info.revision} ({source.license})")
        infos.append(asyncio.run(datasets.get(source)))
    _print(settings, name, infos)


@app.command("check")
@command
def check(settings: Settings, name: AnyName = None) -> None:
    """Compare what is on disk with what was fetched; exit 1 when something differs."""
    from atp.engine import datasets

    infos = [datasets.find(source) for source in _chosen(name)]
    problems = [problem for info in infos for problem in datasets.problems(info)]
    _print(settings, name, infos, problems=problems)
    for problem in problems:
        note(settings, problem)
    if problems:
        raise typer.Exit(1)


@app.command("list")
@command
def list_data(settings: Settings, name: AnyName = None) -> None:
    """Show the data sets and where they are."""
    from atp.engine import datasets

    _print(settings, name, [datasets.find(source) for source in _chosen(name)])


def _sources() -> dict[str, DataSource | HubSource]:
    from atp import registry

    cards = registry.benchmarks().values()
    return {source.name: source for card in cards for source in (card.data, card.user_data) if source}


def _source(name: str) -> DataSource | HubSource:
    from atp.protocol.errors import UnknownName
    from atp.protocol.names import nearest

    sources = _sources()
    if name not in sources:
        raise UnknownName(f"no data are called {name!r}{nearest(name, sources)}; `atp data list` shows all")
    return sources[name]


def _chosen(name: str | None) -> list[DataSource | HubSource]:
    return [_source(name)] if name is not None else list(_sources().values())


def _print(settings: Settings, name: str | None, infos: list[DataInfo], **more: Any) -> None:
    rows = [
        {
            "name": info.source.name,
            "source": info.origin,
            "revision": info.revision,
            "sha256": info.sha256,
            "license": info.source.license,
            "path": str(info.path) if info.path else None,
            "rows": info.source.rows,
        }
        for info in infos
    ]
    if settings.json:
        print_json(({"data": rows} if name is None else rows[0]) | more)
        return
    columns = ("name", "source", "rows", "license", "path")
    print_table(columns, [[row[column] for column in columns] for row in rows])

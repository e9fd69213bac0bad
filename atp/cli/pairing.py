"""`atp resolve`: whether a benchmark, a harness and a model can run together."""

from __future__ import annotations

from typing import Annotated

import typer

from atp.cli.options import Option, Settings, command, options_by_owner
from atp.cli.output import print_facts, print_json
from atp.cli.run_options import BaseUrl, Python, UserBaseUrl, UserModel, Workers


@command
def resolve(
    settings: Settings,
    benchmark: Annotated[str, typer.Argument(metavar="BENCHMARK", help="A benchmark, or file:TASKS.jsonl.")],
    harness: Annotated[str, typer.Argument(metavar="HARNESS", help="A harness.")],
    model: Annotated[str, typer.Argument(metavar="MODEL", help="provider/model, or scripted/NAME.")],
    python: Python = None,
    workers: Workers = 1,
    base_url: BaseUrl = None,
    user_model: UserModel = None,
    user_base_url: UserBaseUrl = None,
    option: Option = None,
) -> None:
    """Say what a benchmark, a harness and a model need to run together; exit 3 when something is missing."""
    from atp import registry

    pairing = registry.resolve(
        benchmark,
        harness,
        model,
        python=python,
        in_process=workers == 0,
        base_url=base_url,
        user_model=user_model,
        user_base_url=user_base_url,
        **options_by_owner(option or [], ("benchmark", "harness")),
    )
    if settings.json:
        print_json(pairing.as_json())
    else:
        print_facts(pairing.as_json())
    if not pairing.ready:
        raise typer.Exit(3)

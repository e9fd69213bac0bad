"""`atp evidence` and `atp validate evidence`: documents of what was seen of a run."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from atp.cli.options import Settings, command
from atp.cli.output import print_document, print_json, printable
from atp.cli.redacted_output import REDACTOR

if TYPE_CHECKING:
    from atp.protocol.evidence import Problem

validate = typer.Typer(name="validate", help="Check documents that others wrote.", no_args_is_help=True)


@command
def evidence(
    settings: Settings,
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run id, or its beginning.")],
) -> None:
    """Print a run's target-evidence-v1 document, which is made once and kept."""
    from atp.cli.event_loop import run as run_async
    from atp.engine.evidence import run_evidence
    from atp.store.store import Store

    with Store.open(settings.db, readonly=True) as store:  # makes no database, and waits for none
        run_id = store.attempt(run).run_id
        content = store.evidence(run_id)
    if content is None:
        with Store.open(settings.db) as store:
            content = run_async(run_evidence(store, run_id))
    print_document(content)


@validate.callback()
def _validate() -> None:
    """Check documents that others wrote."""


@validate.command("evidence")
@command
def validate_evidence(
    settings: Settings,
    place: Annotated[str, typer.Argument(metavar="FILE|URL", help="The document; - reads standard input.")],
    run: Annotated[str | None, typer.Option("--run", metavar="ID", help="The run it has to be of.")] = None,
    case: Annotated[
        str | None, typer.Option("--case", metavar="ID", help="The case it has to be of.")
    ] = None,
    token_variable: Annotated[
        str | None,
        typer.Option(
            "--token-variable", metavar="NAME", help="The variable that holds a URL's bearer token."
        ),
    ] = None,
) -> None:
    """Check a target-evidence-v1 document; exit 1 and a message for every rule it breaks."""
    from atp.protocol.evidence import checked

    found = checked(_content(place, token_variable), run, case)
    if settings.json:
        print_json({"valid": found.valid, "problems": [_named(problem) for problem in found.problems]})
    else:
        for problem in found.problems:
            print(printable(str(problem)))
        if found.valid:
            print("valid")
    if not found.valid:
        raise typer.Exit(1)


def _named(problem: Problem) -> dict[str, str]:
    return {"rule": str(problem.rule), "where": problem.where, "message": problem.message}


def _content(place: str, token_variable: str | None) -> bytes:
    from atp.protocol.errors import InvalidInput
    from atp.protocol.evidence import MOST_BYTES

    if place.startswith(("http://", "https://")):
        from atp.cli.event_loop import run as run_async
        from atp.engine.fetched_document import fetched

        return run_async(fetched(place, _token(token_variable), MOST_BYTES))
    try:
        if place == "-":
            return sys.stdin.buffer.read(MOST_BYTES + 1)
        with Path(place).open("rb") as opened:
            return opened.read(MOST_BYTES + 1)  # one byte more is too many already
    except OSError as error:
        raise InvalidInput(f"{place}: cannot be read: {error}") from error


def _token(variable: str | None) -> str | None:
    from atp.protocol.errors import NotReady

    if variable is None:
        return None
    if not (token := os.environ.get(variable)):
        raise NotReady(f"the variable {variable}, which is to hold the token, is not set")
    REDACTOR.learn(variable, token)
    return token

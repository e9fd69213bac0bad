"""The command line as a whole: its commands, its version, its exit codes.

Start-up is kept cheap: a module of commands imports nothing heavy at its top, and a command
imports what it needs in its body.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from io import TextIOWrapper
from typing import Annotated

import typer

from agent_task_protocol import __version__
from atp.cli import data, doctor, environment, evidence, listing, pairing, results, run, score, trace, verify
from atp.cli.ending import end
from atp.cli.output import printable
from atp.cli.redacted_output import REDACTOR, redact_output
from atp.protocol.errors import AtpError, InvalidInput, NotReady, PluginError, UsageError
from atp.protocol.unicode_text import well_formed

app = typer.Typer(
    name="atp",
    help="Pair any benchmark with any agent harness, run the harness natively, and keep what was seen.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

app.add_typer(listing.app, name="list")
app.add_typer(listing.show, name="show")
app.command("resolve")(pairing.resolve)
app.command("run")(run.run)
app.command("resume")(run.resume)
app.command("results")(results.results)
app.command("trace")(trace.trace)
app.command("evidence")(evidence.evidence)
app.add_typer(evidence.validate, name="validate")
app.command("score")(score.score)
app.command("verify")(verify.verify)
app.add_typer(data.app, name="data")
app.add_typer(environment.app, name="env")
app.command("doctor")(doctor.doctor)


def main() -> None:
    """Run a command line and end the process with its exit code.

    0 all well, 1 ended but something is missing or failed, 2 wrong usage, 3 a check before the run
    failed and nothing was started, 130 interrupted.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a terminal or file that cannot show all of Unicode
            stream.reconfigure(errors="backslashreplace")
    REDACTOR.learn_all(os.environ)
    redact_output()
    code: int | str | None = 0
    try:
        _require_text(sys.argv[1:])
        app(prog_name="atp")
    except AtpError as error:
        print(printable(f"atp: {error.message}", keep="\n"), file=sys.stderr)
        code = exit_code(error)
    except SystemExit as ended:
        code = ended.code
    end(code)


def _require_text(arguments: Sequence[str]) -> None:
    """Refuse what was not UTF-8: every argument may be stored, shown, or sent to a model.

    Raises:
        InvalidInput: Names the argument.
    """
    for argument in arguments:
        if well_formed(argument) != argument:
            raise InvalidInput(
                f"{os.fsencode(argument)!r} is not UTF-8: rename the file, or write it in UTF-8"
            )


def exit_code(error: AtpError) -> int:
    """The exit code that an error gives."""
    if isinstance(error, NotReady | PluginError):
        return 3
    return 2 if isinstance(error, UsageError) else 1


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"atp {__version__}")
        raise typer.Exit


@app.callback()
def _atp(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Pair any benchmark with any agent harness, run the harness natively, and keep what was seen."""

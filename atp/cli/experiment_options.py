"""`-f EXPERIMENT.yaml`: options of a command out of a file, behind those of the command line."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Concatenate, ParamSpec

import typer

from atp.cli.options import Settings
from atp.cli.output import note
from atp.protocol.errors import InvalidInput

P = ParamSpec("P")

_NEEDED = {"benchmark": "-b", "harness": "-H", "model": "-m"}
_TASKS = frozenset({"count", "everything", "task"})
"""Which tasks are run is one choice: made on the command line, it is not made in the file."""
_ADDED = "option"
"""Added to each other key by key; everything else is taken whole, from one place."""


def with_experiment_file(
    function: Callable[Concatenate[Settings, P], None],
) -> Callable[Concatenate[Settings, P], None]:
    """Give a command the option `-f`; it gets its options as if all stood on the command line.

    Raises:
        InvalidInput: The file breaks its rules; or no benchmark, harness or model is given at all.
    """
    own = inspect.signature(function, eval_str=True)
    parameters = [*own.parameters.values(), _FILE, _CONTEXT]

    @functools.wraps(function)
    def run(settings: Settings, /, *args: P.args, **given: P.kwargs) -> None:
        file, context = given.pop(_FILE.name), given.pop(_CONTEXT.name)
        if file is not None:
            typed = {name: value for name, value in given.items() if _was_typed(context, name)}
            given.update(_from_file(settings, file, typed))  # type: ignore[arg-type]  # by the signature
        for name, letter in _NEEDED.items():
            if not given[name]:
                raise InvalidInput(f"no {name}: give {letter}, or `{name}` in a file (-f EXPERIMENT.yaml)")
        function(settings, *args, **given)

    run.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]  # see `command`
    return run


def _from_file(settings: Settings, path: Path, typed: Mapping[str, Any]) -> dict[str, Any]:
    from atp.engine.experiment_file import ExperimentFile

    file = ExperimentFile.load(path)
    arguments = file.arguments()
    keys = {name: field.alias or name for name, field in ExperimentFile.model_fields.items()}
    passed_over = {name for name in arguments if name in typed and name != _ADDED}
    if typed.keys() & _TASKS:
        passed_over |= arguments.keys() & _TASKS
    if settings.verbosity > 0:
        note(settings, f"{path} gives {', '.join(keys[name] for name in arguments) or 'nothing'}")
        given = ", ".join(keys[name] for name in typed if name in keys) or "nothing"
        note(settings, f"the command line gives {given}")
        for name in sorted(passed_over):
            note(settings, f"{path}: {keys[name]} is passed over, the command line goes before it")
    taken = {name: value for name, value in arguments.items() if name not in passed_over}
    if _ADDED in taken and _ADDED in typed:
        taken[_ADDED] = [*taken[_ADDED], *typed[_ADDED]]  # of the same key the last counts
    return taken


def _was_typed(context: Any, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


_FILE = inspect.Parameter(
    "experiment_file",
    inspect.Parameter.KEYWORD_ONLY,
    default=None,
    annotation=Annotated[
        Path | None,
        typer.Option(
            "-f", "--file", metavar="EXPERIMENT.yaml", help="Options in a file; these go before it."
        ),
    ],
)
_CONTEXT = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)

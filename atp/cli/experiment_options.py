"""Commands with the options of a run: typed, or out of a file (`-f EXPERIMENT.yaml`) behind what is typed."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from atp.cli.options import Settings
from atp.cli.output import note
from atp.cli.run_options import DECLARED, as_fields
from atp.protocol.errors import InvalidInput

_NEEDED = {"benchmark": "-b", "harness": "-H", "model": "-m"}
_TASKS = frozenset({"count", "everything", "task"})
"""Which tasks are run is one choice: made on the command line, it is not made in the file."""
_ADDED = "option"
"""Added to each other key by key; everything else is taken whole, from one place."""


def with_run_options(function: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of a run and `-f`; behind the settings it gets them all, as fields of
    `RunOptions`.

    Raises:
        InvalidInput: The file breaks its rules; or no benchmark, harness or model is given at all.
    """

    @functools.wraps(function)
    def run(settings: Settings, **given: Any) -> None:
        file, context, asked = given.pop(_FILE.name), given.pop(_CONTEXT.name), _declared(given)
        if file is not None:
            typed = {name: value for name, value in asked.items() if _was_typed(context, name)}
            asked |= _from_file(settings, file, typed)
        for name, letter in _NEEDED.items():
            if not asked[name]:
                raise InvalidInput(f"no {name}: give {letter}, or `{name}` in a file (-f EXPERIMENT.yaml)")
        function(settings, as_fields(asked), **given)

    return _with_parameters(run, function, _FILE)


def with_typed_options(function: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of a run; behind the settings it gets those that were typed, as fields of
    `RunOptions`."""

    @functools.wraps(function)
    def run(settings: Settings, **given: Any) -> None:
        context, asked = given.pop(_CONTEXT.name), _declared(given)
        typed = {name: value for name, value in asked.items() if _was_typed(context, name)}
        function(settings, as_fields(typed), **given)

    return _with_parameters(run, function)


def _declared(given: dict[str, Any]) -> dict[str, Any]:
    """Take the options of a run out of what a command was given."""
    return {parameter.name: given.pop(parameter.name) for parameter in DECLARED}


def _with_parameters(
    run: Callable[..., None], function: Callable[..., None], *more: inspect.Parameter
) -> Callable[..., None]:
    own = inspect.signature(function, eval_str=True)
    settings, _, *others = own.parameters.values()
    run.__signature__ = own.replace(  # type: ignore[attr-defined]  # see `command`
        parameters=[settings, *others, *DECLARED, *more, _CONTEXT]
    )
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

"""The options every command has."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Concatenate, ParamSpec

import typer

from atp.cli.redacted_output import REDACTOR
from atp.protocol.errors import InvalidInput

P = ParamSpec("P")

DEFAULT_DATABASE = "sqlite:///./atp.db"

Option = Annotated[
    list[str] | None, typer.Option("-o", metavar="WHOSE.KEY=V", help="benchmark.KEY=V or harness.KEY=V.")
]
"""Options of a benchmark and a harness; `options_by_owner` reads them."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What the common options said."""

    db: str
    """Database URL."""
    json: bool
    """One JSON object on standard output instead of tables."""
    verbosity: int
    """-1 quiet, 0 usual, 1 and more: say more."""


def command(function: Callable[Concatenate[Settings, P], None]) -> Callable[..., None]:
    """Give a command the common options; it gets them as its first argument.

    The environment file is read before anything else, so that what it sets is there for the
    defaults of the others.
    """
    own = inspect.signature(function, eval_str=True)
    parameters = [*list(own.parameters.values())[1:], *_COMMON]

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> None:
        common = {parameter.name: kwargs.pop(parameter.name) for parameter in _COMMON}
        if common["env_file"] is not None:
            read_environment_file(common["env_file"])
            REDACTOR.learn_all(os.environ)
        settings = Settings(
            db=common["db"] or os.environ.get("ATP_DB") or DEFAULT_DATABASE,
            json=common["as_json"],
            verbosity=-1 if common["quiet"] else common["verbose"],
        )
        _set_up_logging(settings.verbosity)
        function(settings, *args, **kwargs)

    run.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]  # typer reads it
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def read_environment_file(path: Path) -> None:
    """Set the variables of a file of `NAME=VALUE` lines; what is already set stays.

    Empty lines and lines that start with `#` are passed over, `export ` before a name too, and
    quotes around a whole value.

    Raises:
        InvalidInput: The file cannot be read or a line is no assignment; no value is shown.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"--env-file {path}: cannot be read: {error}") from error
    for number, line in enumerate(text.splitlines(), start=1):
        line = line.strip().removeprefix("export ")
        if not line or line.startswith("#"):
            continue
        name, equals, value = line.partition("=")
        name, value = name.strip(), value.strip()
        if not equals or not name.isidentifier():
            raise InvalidInput(f"--env-file {path}:{number}: write NAME=VALUE")
        if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
            value = value[1:-1]
        os.environ.setdefault(name, value)


def assignments(texts: list[str], option: str) -> dict[str, str]:
    """Read repeated `KEY=VALUE` options.

    Raises:
        InvalidInput: One is not of that form.
    """
    result: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise InvalidInput(f"{option} {text!r}: write KEY=VALUE")
        result[key] = value
    return result


def options_by_owner(texts: list[str], owners: Sequence[str]) -> dict[str, dict[str, str]]:
    """Read repeated `-o WHOSE.KEY=V` options: `WHOSE_options` -> key -> value.

    Raises:
        InvalidInput: One is not of that form, or belongs to nobody here.
    """
    found: dict[str, dict[str, str]] = {f"{owner}_options": {} for owner in owners}
    for key, value in assignments(texts, "-o").items():
        owner, _, name = key.partition(".")
        if owner not in owners or not name:
            forms = " or ".join(f"{each}.KEY=V" for each in owners)
            raise InvalidInput(f"-o {key}=…: write {forms}")
        found[f"{owner}_options"][name] = value
    return found


def _set_up_logging(verbosity: int) -> None:
    import logging

    level = {-1: logging.ERROR, 0: logging.WARNING, 1: logging.INFO}.get(verbosity, logging.DEBUG)
    logging.basicConfig(level=level, format="%(levelname)s %(name)s: %(message)s")


def _common(name: str, default: Any, kind: Any, *declarations: str, **option: Any) -> inspect.Parameter:
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[kind, typer.Option(*declarations, **option)],
    )


_COMMON = (
    _common(
        "db",
        None,
        str | None,
        "--db",
        metavar="URL",
        help=f"Database. Default: $ATP_DB, else {DEFAULT_DATABASE}.",
    ),
    _common("as_json", False, bool, "--json", help="One JSON object on standard output."),
    _common("verbose", 0, int, "-v", "--verbose", count=True, help="Say more."),
    _common("quiet", False, bool, "-q", "--quiet", help="Say only what went wrong."),
    _common("env_file", None, Path | None, "--env-file", metavar="F", help="Variables, as NAME=VALUE lines."),
)

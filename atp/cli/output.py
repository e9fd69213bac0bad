"""What commands print: tables for people, one JSON object for programs, all else on standard error."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from atp.cli.options import Settings
from atp.cli.redacted_output import REDACTOR


def print_json(value: Mapping[str, Any]) -> None:
    """Print the one JSON object of a `--json` command; escapes where standard output is not UTF-8."""
    json.dump(value, sys.stdout, ensure_ascii=not _takes_unicode(), indent=2, allow_nan=False)
    sys.stdout.write("\n")


def print_document(content: bytes) -> None:
    """Print a JSON document as it is, on a line; with escapes where standard output is not UTF-8."""
    text = content.decode("utf-8")
    sys.stdout.write((text if _takes_unicode() else json.dumps(json.loads(text))) + "\n")


def print_table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print a table that fits the terminal; None shows as a dash.

    Args:
        columns: Headings; one that begins with `>` is a column of numbers.
        rows: One value for each column. Text is printed as it is, without markup.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    for column in columns:
        table.add_column(
            column.removeprefix(">"), justify="right" if column.startswith(">") else "left", overflow="fold"
        )
    for row in rows:
        table.add_row(*(Text(_cell(value)) for value in row))
    Console(highlight=False, width=_width()).print(table)


def print_facts(facts: Mapping[str, Any]) -> None:
    """Print names and values under each other."""
    print_table(("", ""), [(name, value) for name, value in facts.items()])


def note(settings: Settings, text: str) -> None:
    """Say something on standard error, unless the user asked for quiet."""
    if settings.verbosity >= 0:
        print(printable(text, keep="\n"), file=sys.stderr)


def printable(text: str, keep: str = "") -> str:
    """Text without what a terminal obeys: models and tools write line breaks and escape sequences.

    Args:
        text: Anything.
        keep: Characters that stay all the same.
    """
    return "".join(c if c.isprintable() or c in keep else " " for c in text)


def _takes_unicode() -> bool:
    return (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"


def _cell(value: Any) -> str:
    if value is None or value == ():
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return REDACTOR.text("\n".join(map(str, value)))
    if isinstance(value, Mapping):
        return REDACTOR.text("\n".join(f"{key}: {item}" for key, item in value.items())) or "-"
    return printable(REDACTOR.text(str(value)), keep="\n")  # before it is folded into lines


def _width() -> int | None:
    # A file or a pipe has no width of its own; what reads it may wrap as it likes.
    return None if sys.stdout.isatty() or "COLUMNS" in os.environ else 120

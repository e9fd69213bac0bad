"""The pages: every block runs, every command and link exists, every table says what the code says."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from atp.cli.app import app
from atp.protocol.status import TABLE, Rule, Status, StopReason
from atp.worker import messages
from atp.worker.loading import load
from tests.atp.engine.experiments import Lab
from tests.docs.page import LANGUAGES, ROOT, Reader, blocks, commands, pages

DOCS = ROOT / "docs"
PAGES = pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
# `test_write_a_harness.py` follows that page, whose reader needs an environment to install into.
IN_THIS_ENVIRONMENT = pytest.mark.parametrize(
    "page", [page for page in pages() if page.stem != "write-a-harness"], ids=lambda page: page.stem
)


@IN_THIS_ENVIRONMENT
def test_every_block_of_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    reader = Reader(page, tmp_path)
    for block in blocks(page):
        reader.follow(block)


@PAGES
def test_every_block_says_what_it_is_and_why_it_is_not_run(page: Path) -> None:
    for block in blocks(page):
        assert block.language in LANGUAGES, f"{page}:{block.line}"
        assert block.language != "console no-run" or block.explained, f"{page}:{block.line}: why not run?"


@PAGES
def test_commands_that_are_not_run_exist_with_their_options(page: Path) -> None:
    for block in blocks(page):
        if block.language == "console no-run":
            for command in commands(block.text):
                check_words(command.words)


@PAGES
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
        if target.startswith("https://"):
            continue
        path, _, heading = target.partition("#")
        place = page.parent / path if path else page
        assert place.exists(), target
        assert not heading or heading in headings(place), target


def test_the_map_names_every_page() -> None:
    linked = set(re.findall(r"\]\(([\w-]+\.md)\)", (DOCS / "index.md").read_text(encoding="utf-8")))
    assert linked == {page.name for page in DOCS.glob("*.md")} - {"index.md"}


def test_the_status_table_is_the_one_of_the_code() -> None:
    rows = table(DOCS / "statuses.md", "| error |")
    assert rows == [row_of(rule) for rule in TABLE]


def test_every_status_and_stop_reason_is_explained() -> None:
    assert [first(row) for row in table(DOCS / "statuses.md", "| status |")] == [str(s) for s in Status]
    reasons = [first(row) for row in table(DOCS / "statuses.md", "| stop reason |")]
    assert reasons == [str(reason) for reason in StopReason]


def test_the_status_table_says_which_statuses_are_graded() -> None:
    graded = {first(row) for row in table(DOCS / "statuses.md", "| status |") if cells(row)[2] == "yes"}
    assert graded == {str(status) for status in Status if status.gradable}


def test_the_messages_of_the_link_are_those_of_the_code() -> None:
    documented = [row for row in (messages.__doc__ or "").splitlines() if row.startswith("| `")]
    of_the_code = [[cell.strip() for cell in row.strip("|").split("|")] for row in documented]
    shown = [cells(row) for row in table(DOCS / "link.md", "| message |")]
    assert [row[:3] for row in shown] == [row[:3] for row in of_the_code]


def test_the_figures_of_the_link_are_those_of_the_code() -> None:
    rows = table(DOCS / "link.md", "| figure |")
    assert len(rows) > 5
    for row in rows:
        name, value, _ = cells(row)
        path, number = name.strip("`"), value.replace(",", "").split(" ")[0]
        assert float(number) == load(path), path


async def test_every_key_of_a_cell_and_of_an_attempt_is_explained(tmp_path: Path) -> None:
    outcome = await Lab(tmp_path).run(models=["scripted/noop"], count=1)
    page = (DOCS / "results.md").read_text(encoding="utf-8")
    [cell], [attempt] = outcome["cells"], outcome["attempts"]
    assert [key for key in (*cell, *attempt) if f"`{key}`" not in page] == []


def test_the_overview_of_the_readme_names_every_command() -> None:
    named = {first(row).split(" ")[1] for row in table(ROOT / "README.md", "| command |")}
    group: Any = typer.main.get_command(app)
    assert named == set(group.commands)


def headings(page: Path) -> set[str]:
    """What a link can name after `#`."""
    found = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in found}


def table(page: Path, head: str) -> list[str]:
    """The rows of the table whose first line begins so."""
    lines = iter(page.read_text(encoding="utf-8").splitlines())
    assert any(line.startswith(head) for line in lines), f"{page} has no table {head}"
    next(lines)
    return list(_until_blank(lines))


def _until_blank(lines: Iterator[str]) -> Iterator[str]:
    for line in lines:
        if not line.startswith("|"):
            return
        yield line


def cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip("|").split("|")]


def first(row: str) -> str:
    return cells(row)[0].strip("`")


def row_of(rule: Rule) -> str:
    """How a rule of the status table stands on the page."""
    conditions = []
    if rule.error_class is not None:
        conditions.append(f"`{rule.error_class}`")
    if rule.http_status is not None:
        low, high = rule.http_status.start, rule.http_status.stop - 1
        conditions.append(f"HTTP {low}" if low == high else f"HTTP {low} to {high}")
    if rule.provider_code is not None:
        conditions.append(f"code `{rule.provider_code}`")
    again = "yes" if rule.retry else "no"
    what = " and ".join(conditions)
    return f"| {what} | `{rule.status}` | `{rule.stop_reason}` | {rule.fault} | {again} |"


def check_words(words: list[str]) -> None:
    """A command line that is not run: `atp` commands with their options, targets of the Makefile."""
    program, *rest = words
    if program == "make":
        targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
        assert set(rest) <= set(targets), words
    elif program == "atp":
        command: Any = typer.main.get_command(app)
        while hasattr(command, "commands"):
            assert rest and rest[0] in command.commands, words
            command = command.commands[rest.pop(0)]
        options = {name for parameter in command.params for name in parameter.opts}
        assert {word for word in rest if word.startswith("-")} <= options, words
    else:
        assert program in {"export", "git", "cd", "pip", "uv"}, words

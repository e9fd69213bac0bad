"""What a page says wrongly is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.page import Reader, blocks, commands


def follow(folder: Path, text: str) -> None:
    page = folder / "page.md"
    page.write_text(text, encoding="utf-8")
    reader = Reader(page, folder)
    for block in blocks(page):
        reader.follow(block)


def test_output_is_found_in_order_with_spaces_as_one_and_an_ellipsis_for_anything(tmp_path: Path) -> None:
    follow(tmp_path, "```console\n$ atp --help\nUsage: atp …  COMMAND\nrun  Run benchmarks\n```\n")


@pytest.mark.parametrize(
    ("block", "told"),
    [
        ("```console\n$ atp --version\natp 99\n```", "does not print 'atp 99'"),
        ("```console\n$ atp --help\nRun benchmarks\nUsage: atp\n```", "does not print 'Usage: atp'"),
        ("```console\n$ atp --unknown\n```", "exit 2"),
        ("<!-- exit: 2 -->\n```console\n$ atp --version\n```", "exit 0"),
        ("```console\n$ rm -r folder\n```", "only atp, python, uv are run"),
        ("```python\nassert 1 == 2, 'unequal'\n```", "unequal"),
    ],
)
def test_a_block_that_does_not_hold_fails(block: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=told):
        follow(tmp_path, block)


def test_blocks_of_python_share_their_names_and_files_are_written(tmp_path: Path) -> None:
    first = "<!-- file: numbers.txt -->\n```text\n42\n```\n```python\nanswer = 42\n```\n"
    follow(tmp_path, f"{first}```python\nassert answer == 42\n```\n")
    assert (tmp_path / "numbers.txt").read_text(encoding="utf-8") == "42\n"


def test_a_document_is_held_to_the_type_that_is_named(tmp_path: Path) -> None:
    typed = "<!-- type: atp.protocol.task:TaskInput -->\n```json\n{}\n```\n".format
    follow(tmp_path, typed('{"task_id": "a"}'))
    with pytest.raises(ValueError, match="task_id"):
        follow(tmp_path, typed("{}"))


def test_a_comment_that_is_no_directive_is_a_reason(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- It needs a key. -->\n```console no-run\n$ atp run\n```\n", encoding="utf-8")
    [block] = blocks(page)
    assert block.explained


def test_a_command_goes_on_behind_a_backslash_and_ends_before_a_remark(tmp_path: Path) -> None:
    [command] = commands("$ atp run \\\n  -b humaneval  # a benchmark\nshown\n")
    assert command.words == ["atp", "run", "-b", "humaneval"]
    assert command.output == ["shown"]

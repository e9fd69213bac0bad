"""Pages whose code blocks run.

The blocks of a page run from top to bottom, in one folder of their own. What a block is for stands
in its language, and in HTML comments right above it:

- `python` runs, all blocks of a page in one namespace.
- `console` runs its `$ atp …` lines, and those of `python` and `uv`. Lines below a command are parts of
  what it prints, in order; `…` stands for anything, and spaces count as one. `RUN` is the first run of
  the newest experiment.
  `<!-- exit: N -->` says how the last command ends; without it every one ends with 0.
- `console no-run` is only checked for commands and options that exist. A comment above says why.
- `toml`, `yaml`, `json` and `jsonl` are parsed; `<!-- type: module:Class -->` names what they hold.
- `text` is a picture.
- `<!-- file: NAME -->` writes any block into the folder. A `pyproject.toml` there, and not in a folder
  below, is installed: its entry points are found, as after `pip install`.
"""

from __future__ import annotations

import importlib
import json
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]

_COMMENT = re.compile(r"<!--\s*(.*?)\s*-->$")
_DIRECTIVE = re.compile(r"(file|exit|type): (\S+)$")
_FENCE = re.compile(r"(```+)(.*)$")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block."""

    language: str
    """All that stands behind the opening fence."""
    text: str
    line: int
    """Of the opening fence, from 1."""
    directives: Mapping[str, str]
    explained: bool
    """Whether a comment that is no directive stands above it."""


def pages() -> Sequence[Path]:
    """Every page there is."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page: Path) -> Iterator[Block]:
    """The fenced blocks of a page."""
    lines = iter(enumerate(page.read_text(encoding="utf-8").splitlines(), start=1))
    comments: list[str] = []
    for number, line in lines:
        if comment := _COMMENT.match(line):
            comments.append(comment[1])
        elif fence := _FENCE.match(line):
            body = []
            for _, inner in lines:
                if inner == fence[1]:
                    break
                body.append(inner)
            found = [_DIRECTIVE.match(comment) for comment in comments]
            yield Block(
                fence[2].strip(),
                "".join(f"{each}\n" for each in body),
                number,
                {directive[1]: directive[2] for directive in found if directive},
                explained=not all(found),
            )
            comments = []
        else:
            comments = []


@dataclass(frozen=True, slots=True)
class Command:
    """A command of a console block, and the lines below it."""

    line: str
    output: Sequence[str]

    @property
    def words(self) -> list[str]:
        """As a shell splits it; a comment behind it is left out."""
        return shlex.split(self.line, comments=True)


def commands(text: str) -> Sequence[Command]:
    """The commands of a console block."""
    found: list[Command] = []
    for line in text.replace("\\\n", " ").splitlines():
        if line.startswith("$ "):
            found.append(Command(line[2:], []))
        elif line.strip():
            found[-1] = Command(found[-1].line, [*found[-1].output, line])
    return found


class Reader:
    """Somebody who does what a page says, in a folder of their own.

    Args:
        page: The page.
        folder: An empty one. For pages with Python to run, or with something to install, it has to be the
            working folder, and on `sys.path` and `PYTHONPATH`.
        python: The interpreter of an environment in which ATP is installed.
        environ: The reader's variables; `PATH` leads to `uv`.
    """

    def __init__(
        self,
        page: Path,
        folder: Path,
        python: Path = Path(sys.executable),
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._page = page
        self._folder = folder
        self._environ = environ
        self._programs: Mapping[str, Sequence[str]] = {
            "atp": (str(python), "-m", "atp.cli"),
            "python": (str(python),),
            "uv": ("uv",),
        }
        self._namespace: dict[str, Any] = {"__name__": page.stem}

    def follow(self, block: Block) -> None:
        """Do what one block says.

        Raises:
            AssertionError: The page does not hold.
        """
        if name := block.directives.get("file"):
            (self._folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self._folder / name).write_text(block.text, encoding="utf-8")
        if block.language == "python" and name is None:
            placed = "\n" * block.line + block.text  # so that a traceback shows the page's own lines
            exec(compile(placed, self._page, "exec", dont_inherit=True), self._namespace)
        elif block.language == "console":
            self._run_all(commands(block.text), int(block.directives.get("exit", 0)))
        elif block.language in _PARSERS:
            for value in _PARSERS[block.language](block.text):
                _check_type(value, block.directives.get("type"))
        if name == "pyproject.toml":
            self._install(tomllib.loads(block.text)["project"])

    def run(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run `atp`, `python` or `uv`."""
        return subprocess.run(
            [*self._programs[program], *arguments],
            cwd=self._folder,
            env=self._environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
        )

    def _run_all(self, lines: Sequence[Command], last_exit: int) -> None:
        for command in lines:
            program, *arguments = command.words
            known = ", ".join(self._programs)
            assert program in self._programs, f"{command.line}: only {known} are run; mark the block no-run"
            done = self.run(program, *(self._newest_run() if word == "RUN" else word for word in arguments))
            said = done.stdout + done.stderr
            expected = last_exit if command is lines[-1] else 0
            assert done.returncode == expected, f"{command.line}: exit {done.returncode}\n{said}"
            position = 0
            for line in command.output:
                pattern = re.escape(" ".join(line.split())).replace("…", ".*?")
                shown = re.compile(pattern).search(" ".join(said.split()), position)
                assert shown, f"{command.line} does not print {line!r}\n{said}"
                position = shown.end()

    def _newest_run(self) -> str:
        outcome = json.loads(self.run("atp", "results", "--json").stdout)
        return str(outcome["attempts"][0]["run_id"])

    def _install(self, project: Mapping[str, Any]) -> None:
        folder = self._folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
        folder.mkdir()
        about = f"Metadata-Version: 2.4\nName: {project['name']}\nVersion: {project['version']}\n"
        (folder / "METADATA").write_text(about, encoding="utf-8")
        points = [
            line
            for group, names in project["entry-points"].items()
            for line in (f"[{group}]", *(f"{name} = {value}" for name, value in names.items()))
        ]
        (folder / "entry_points.txt").write_text("\n".join(points), encoding="utf-8")


def _check_type(value: Any, path: str | None) -> None:
    if path is not None:
        module, _, attribute = path.partition(":")
        getattr(importlib.import_module(module), attribute).model_validate(value)


_PARSERS: Mapping[str, Any] = {
    "toml": lambda text: [tomllib.loads(text)],
    "yaml": lambda text: [yaml.safe_load(text)],
    "json": lambda text: [json.loads(text)],
    "jsonl": lambda text: [json.loads(line) for line in text.splitlines()],
}

LANGUAGES = frozenset({"python", "console", "console no-run", "text", *_PARSERS})

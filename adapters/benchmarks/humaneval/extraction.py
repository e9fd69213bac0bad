"""Find the code in what a model said. Only splits text: whether it compiles is tried in the sandbox."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

MAX_ANSWER = 200_000
"""Characters; a longer answer is not looked at. The longest official solution has under 1000."""

_FENCE = re.compile(r"^([ \t]*(?:>[ \t]?)*)(`{3,}|~{3,})[ \t]*([^\s`]*)[^`]*$")
_PYTHON = frozenset({"", "python", "py", "python3", "python2", "pycon", "code"})
_CODE_LINE = re.compile(r"^(?:(?:async\s+)?def|class|import|from|@)\b|^@")
_RESULT = re.compile(r"\b(?:return|yield|raise)\b")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A piece of text that may be the solution."""

    kind: Literal["whole", "body"]
    """`whole` defines the function itself; `body` continues the prompt."""
    code: str


def candidates(answer: str, entry_point: str) -> tuple[Candidate, ...]:
    """What may be the solution, the likeliest first.

    A block that defines the function goes before one that does not, and a later one before an
    earlier one: who corrects himself means the last. Then come blocks that can be the body of the
    function, then the text outside of blocks.

    Args:
        answer: What the model said.
        entry_point: The function's name.
    """
    if len(answer) > MAX_ANSWER:
        return ()
    answer = answer.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "")
    blocks = list(_blocks(answer))
    pieces = [code for label, code in blocks if label in _PYTHON] or [code for _, code in blocks]
    defines = re.compile(
        rf"^[ \t]*(?:(?:async[ \t]+)?def[ \t]+{entry_point}\b|{entry_point}[ \t]*[:=])", re.M
    )
    found = [Candidate("whole", textwrap.dedent(code)) for code in reversed(pieces) if defines.search(code)]
    for code in pieces:
        if not defines.search(code):
            found += _bodies(code)
    if defines.search(answer):
        found += [Candidate("whole", code) for code in _unfenced(answer)]
    elif not blocks:
        found += _bodies(answer)
    return tuple(dict.fromkeys(found))


def _blocks(answer: str) -> Iterator[tuple[str, str]]:
    """Label and text of every fenced block; one that is not closed ends with the answer."""
    opened: tuple[str, str, str] | None = None
    lines: list[str] = []
    for line in answer.split("\n"):
        fence = _FENCE.match(line)
        if opened is None:
            if fence is not None:
                opened, lines = (fence[1], fence[2], fence[3].lower()), []
            continue
        indent, mark, label = opened
        if fence is not None and fence[2][0] == mark[0] and len(fence[2]) >= len(mark) and not fence[3]:
            yield label, "\n".join(lines) + "\n"
            opened = None
        else:
            lines.append(_without(indent, line))
    if opened is not None:
        yield opened[2], "\n".join(lines) + "\n"


def _without(indent: str, line: str) -> str:
    """The line without what stood before the fence, as far as the line has it."""
    if line.startswith(indent):
        return line[len(indent) :]
    return line.lstrip() if line[: len(indent)].isspace() and line.strip() == "" else line


def _bodies(code: str) -> Iterator[Candidate]:
    """The text as the body of the function: as it is, indented, or with its first line's indent lost."""
    code = code.strip("\n").rstrip()
    if not _RESULT.search(code):
        return
    if code[0].isspace():
        yield Candidate("body", code + "\n")
    yield Candidate("body", textwrap.indent(textwrap.dedent(code), "    ") + "\n")
    yield Candidate("body", "    " + code.lstrip() + "\n")


def _unfenced(answer: str) -> Iterator[str]:
    """The whole answer; from its first line of code on; and up to the prose that follows."""
    lines = answer.split("\n")
    yield answer
    start = next((at for at, line in enumerate(lines) if _CODE_LINE.match(line)), None)
    if start is None:
        yield textwrap.dedent(answer)
        return
    yield "\n".join(lines[start:]) + "\n"
    end = start + 1
    while end < len(lines) and _continues(lines[end]):
        end += 1
    yield "\n".join(lines[start:end]) + "\n"


def _continues(line: str) -> bool:
    """Whether a line after code is still code: blank, indented, closing, a comment, or a definition."""
    return not line or line[0] in " \t)]}#@" or _CODE_LINE.match(line) is not None

"""The program in the solution's box: takes the code, then answers calls. Runs after `values`.

It never sees the test. Its lines: `R` ready, `L` and the number of the candidate that was taken,
`F`, kind and message when none can be, `A` and an answer. Whatever a solution does to this process,
it can only change its own answers.
"""

from __future__ import annotations

import os
import sys
import types

# The name alone is what type checkers go by; importing `typing` would take 20 ms in the box.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import IO, Any

    from adapters.benchmarks.humaneval.values import dumps, loads

ONLY_AST = 0x400
"""`ast.PyCF_ONLY_AST`, without the cost of that module."""


def serve(lines: IO[bytes], out: int) -> None:
    """Load what the first line brings, then answer every further line."""
    tell(out, b"R")
    job = loads(lines.readline())
    module = types.ModuleType("solution")
    sys.modules["solution"] = module
    try:
        number = choose(job["candidates"], job["prompt"], job["entry_point"])
        load(job["candidates"][number], job["prompt"], vars(module))
        function = getattr(module, job["entry_point"])
    except BaseException as error:
        tell(out, b"F" + describe(error))
        return
    tell(out, b"L%d" % number)
    for line in lines:
        arguments, named = loads(line)
        tell(out, b"A" + call(function, arguments, named))


def choose(candidates: list[list[str]], prompt: str, entry_point: str) -> int:
    """The first candidate that is Python and gives the function a body.

    Raises:
        SyntaxError: None does; what the first one's problem is.
    """
    problem: SyntaxError | None = None
    for number, (kind, code) in enumerate(candidates):
        try:
            text = code if kind == "whole" else prompt + code
            tree = compile(text, "solution", "exec", ONLY_AST, dont_inherit=True)
        except (ValueError, MemoryError, RecursionError) as error:
            problem = problem or SyntaxError(str(error))
        except SyntaxError as error:
            problem = problem or error
        else:
            if kind == "whole" or has_body(tree, entry_point):
                return number
    raise problem or SyntaxError(f"nothing gives {entry_point} a body")


def has_body(tree: Any, entry_point: str) -> bool:
    """Whether the prompt's function has more than its docstring."""
    return any(
        getattr(node, "name", None) == entry_point and len(getattr(node, "body", ())) > 1
        for node in tree.body
    )


def load(candidate: list[str], prompt: str, namespace: dict[str, Any]) -> None:
    """Execute prompt and code. A whole program is compiled by itself: it may have its own `__future__`."""
    kind, code = candidate
    for text in (prompt, code) if kind == "whole" else (prompt + code,):
        exec(compile(text, "solution", "exec", dont_inherit=True), namespace)


def call(function: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> bytes:
    """One call as one line: what it returned, or what it raised."""
    try:
        return dumps(("return", function(*arguments, **named)))
    except BaseException as error:
        kind, _, message = describe(error).partition(b"\t")
        return dumps(("raise", kind.decode(), message.decode()))


def describe(error: BaseException) -> bytes:
    """Kind and message of an error, on one line. The name of the nearest built-in class."""
    kind = next(base.__name__ for base in type(error).__mro__ if base.__module__ == "builtins")
    try:
        message = str(error)
    except BaseException:
        message = "its message cannot be had"
    return f"{kind}\t{message[:500]}".replace("\n", " ").encode("utf-8", "replace")


def tell(out: int, line: bytes) -> None:
    """Write one line."""
    line += b"\n"
    while line:
        line = line[os.write(out, line) :]


if __name__ == "__main__":
    source, sink, null = os.dup(0), os.dup(1), os.open("/dev/null", os.O_RDWR)
    for stream in range(3):
        os.dup2(null, stream)
    serve(os.fdopen(source, "rb"), sink)

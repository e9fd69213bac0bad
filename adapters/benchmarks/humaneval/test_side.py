"""The program in the test's box: runs the official test against a proxy. Runs after `values`.

Nothing a model wrote is executed here. Its lines: `R` ready, `C` and the arguments of a call, which
is answered by one line, and at the end `V` and the verdict, or `X` when the test itself is broken.
"""

from __future__ import annotations

import builtins
import os

# The name alone is what type checkers go by; importing `typing` would take 20 ms in the box.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import IO, Any

    from adapters.benchmarks.humaneval.values import dumps, loads


class BrokenAnswer(Exception):
    """The solution's side said something that is no answer."""


class Candidate:
    """Stands for the solution: a call is a line out and a line in."""

    def __init__(self, lines: IO[bytes], out: int) -> None:
        self.lines = lines
        self.out = out

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """What the solution returns or raises for these arguments."""
        tell(self.out, b"C" + dumps((arguments, named)))
        try:
            answer = loads(self.lines.readline())
        except ValueError as error:
            raise BrokenAnswer(str(error)) from error
        match answer:
            case ("return", value):
                return value
            case ("raise", str(kind), str(message)):
                raise exception(kind, message)
        raise BrokenAnswer("neither a result nor an exception")


def exception(kind: str, message: str) -> Exception:
    """The built-in exception of that name, or one that says what it was."""
    found = getattr(builtins, kind, None)
    if isinstance(found, type) and issubclass(found, Exception):
        try:
            return found(message)
        except TypeError:
            pass  # Some take other arguments.
    return RuntimeError(f"{kind}: {message}")


def serve(lines: IO[bytes], out: int) -> None:
    """Take the item, run its test, say what came of it."""
    tell(out, b"R")
    job = loads(lines.readline())
    namespace: dict[str, Any] = {"__name__": "official"}
    try:
        exec(compile(job["prompt"] + "\n" + job["test"], "official", "exec", dont_inherit=True), namespace)
        check = namespace["check"]
    except Exception as error:
        tell(out, b"X" + f"{type(error).__name__}: {error}".replace("\n", " ").encode("utf-8", "replace"))
        return
    candidate = Candidate(lines, out)
    namespace[job["entry_point"]] = candidate
    try:
        check(candidate)
    except Exception as error:
        verdict = {
            "passed": False,
            "error": type(error).__name__,
            "message": str(error)[:500],
            "line": failed_line(error, job["prompt"] + "\n" + job["test"]),
        }
    else:
        verdict = {"passed": True}
    tell(out, b"V" + dumps(verdict))


def failed_line(error: Exception, text: str) -> str | None:
    """The line of the official test where it ended."""
    step = error.__traceback__
    while step is not None:
        if step.tb_frame.f_code.co_filename == "official":
            return text.split("\n")[step.tb_lineno - 1].strip()[:500]
        step = step.tb_next
    return None


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

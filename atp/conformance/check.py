"""What a check is, and what a series of them gives."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TypeAlias, TypeVar

SHOWN = 3
"""Problems that the detail of a failed check tells; the rest is counted."""
MOST_CHARACTERS = 400
"""Of one problem."""

SubjectT = TypeVar("SubjectT")
Problems: TypeAlias = Iterator[str]
"""What is wrong, one text each; none when the rule is kept."""
Check: TypeAlias = Callable[[SubjectT], Problems]
"""A rule: its docstring says it, and where it comes from. Its function's name is its name."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What came of one check."""

    name: str
    passed: bool
    detail: str
    """What is wrong; of a passed one, its rule."""

    def as_json(self) -> Mapping[str, str | bool]:
        """What `atp verify --json` prints."""
        return {"name": self.name, "passed": self.passed, "detail": self.detail}


@dataclass(frozen=True, slots=True)
class Report:
    """What came of all checks of one adapter."""

    subject: str
    results: tuple[CheckResult, ...]

    @property
    def failed(self) -> tuple[CheckResult, ...]:
        """Those that did not pass."""
        return tuple(result for result in self.results if not result.passed)

    def __str__(self) -> str:
        """A line for each failed check; for the message of an assertion."""
        lines = [f"{result.name}: {result.detail}" for result in self.failed]
        head = f"{self.subject}: {len(lines)} of {len(self.results)} checks failed"
        return "\n  ".join([head, *lines])


def apply(check: Check[SubjectT], subject: SubjectT) -> CheckResult:
    """Hold a subject against a rule."""
    return result(check, check(subject))


def result(check: Callable[..., object], problems: Iterable[str]) -> CheckResult:
    """The result of a check that has found these problems."""
    found = iter(problems)
    shown = [problem[:MOST_CHARACTERS] for problem in islice(found, SHOWN)]
    left = sum(1 for _ in found)
    more = [f"and {left} more"] if left else []
    return CheckResult(name_of(check), not shown, "; ".join([*shown, *more]) or rule_of(check))


def name_of(check: Callable[..., object]) -> str:
    """How a check is called in reports: `tool_schemas` is `tool-schemas`."""
    return check.__name__.replace("_", "-")


def rule_of(check: Callable[..., object]) -> str:
    """The rule in one line: the first sentence of the docstring."""
    return " ".join((check.__doc__ or "").split("\n\n", 1)[0].split())

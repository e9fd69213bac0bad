"""What has changed since an experiment was frozen, by name: field, then, now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from atp.store.rows import CellRow

MOST_NAMED = 20
"""Differences that a refusal names; it counts the rest."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One value of a frozen definition that is another one now."""

    path: tuple[str, ...]
    """Where it stands: `("options", "limits", "max_turns")`, `("cells", "0", "sdk", "langgraph")`."""
    then: Any
    """None also where there was no such field."""
    now: Any
    """None also where there is no such field any more."""

    def __str__(self) -> str:
        return f"{'.'.join(self.path)}: was {_shown(self.then)}, is {_shown(self.now)}"

    def touches(self, cell: CellRow) -> bool:
        """Whether attempts of a cell made before and after it are unlike."""
        match self.path:
            case ("cells", index, *_):
                return index == str(cell.index)
            case ("tasks", benchmark, *_):
                return benchmark == cell.benchmark
            case _:
                return True


def differences(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[Difference]:
    """Every leaf in which two definitions differ, in the order of the first.

    Args:
        then: As frozen.
        now: Made anew by the same rule; JSON data, both.
    """
    return list(_differences((), then, now))


def refusal(experiment_id: str, found: Sequence[Difference]) -> str:
    """What to tell somebody who resumes an experiment that is not the same any more."""
    lines = [f"  {difference}" for difference in found[:MOST_NAMED]]
    if len(found) > MOST_NAMED:
        lines.append(f"  and {len(found) - MOST_NAMED} more")
    return "\n".join(
        (
            f"experiment {experiment_id} was frozen with something else than there is now:",
            *lines,
            "bring back what was, start a new experiment, or go on with --allow-drift, "
            "which marks the cells as mixed",
        )
    )


def _differences(path: tuple[str, ...], then: Any, now: Any) -> Iterator[Difference]:
    if isinstance(then, Mapping) and isinstance(now, Mapping):
        for key in dict.fromkeys((*then, *now)):
            yield from _differences((*path, str(key)), then.get(key), now.get(key))
    elif isinstance(then, list) and isinstance(now, list) and len(then) == len(now):
        for index, (left, right) in enumerate(zip(then, now, strict=True)):
            yield from _differences((*path, str(index)), left, right)
    elif type(then) is not type(now) or then != now:
        yield Difference(path, then, now)


def _shown(value: Any) -> str:
    text = "nothing" if value is None else repr(value)
    return text if len(text) <= 200 else f"{text[:200]}..."

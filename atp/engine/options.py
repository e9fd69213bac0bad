"""What a person asks for with `atp run`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from pydantic import Field, model_validator

from atp.protocol.base import Frozen
from atp.protocol.errors import InvalidInput
from atp.protocol.model import Limits, Sampling
from atp.protocol.unicode_text import well_formed

DEFAULT_TASKS = 40
DEFAULT_DEADLINE = 1800.0
"""Seconds; an attempt without any bound could hold its slot for ever."""


class RunOptions(Frozen):
    """The options of a run. Every benchmark is paired with every harness and every model."""

    benchmarks: tuple[str, ...] = Field(min_length=1)
    harnesses: tuple[str, ...] = Field(min_length=1)
    models: tuple[str, ...] = Field(min_length=1)
    count: int | None = Field(default=DEFAULT_TASKS, gt=0)
    """Tasks of each benchmark; None is all."""
    seed: int = 0
    tasks: tuple[str, ...] = ()
    """Task ids instead of a sample."""
    repeats: int = Field(default=1, gt=0)
    sampling: Sampling = Sampling()
    limits: Limits = Limits(deadline=DEFAULT_DEADLINE)
    benchmark_options: Mapping[str, str] = Field(default_factory=dict)
    harness_options: Mapping[str, str] = Field(default_factory=dict)
    base_url: str | None = None
    user_model: str | None = None
    """Plays the users of the benchmarks; None leaves them as they are."""
    user_base_url: str | None = None
    """Of the server that `user_model` is asked at; None is `base_url`."""
    monitored: bool = True
    name: str | None = None

    concurrency: int = Field(default=8, gt=0)
    workers: int = Field(default=1, ge=0)
    python: Path | None = None
    prices: Path | None = None
    """A price table of the user's own. What it says of the cells' models is frozen with them."""
    budget: float | None = Field(default=None, ge=0)
    """USD of the experiment, all tries included."""
    retries: int = Field(default=2, ge=0)
    """Further tries at a slot whose try ended in a way that the status table says may be tried again."""

    @model_validator(mode="after")
    def _text(self) -> Self:
        # Names, task ids and values of options are stored, sent to models and made parts of digests.
        for name, value in self.model_dump().items():
            for text in _texts(value):
                if well_formed(text) != text:
                    raise InvalidInput(f"{name}: {text!r} is not Unicode text")
        return self

    def frozen(self) -> dict[str, Any]:
        """As JSON, all that can change an attempt's outcome; the rest may be chosen anew on resume."""
        return self.model_dump(mode="json", exclude=set(FREE_ON_RESUME))


FREE_ON_RESUME = ("concurrency", "workers", "python", "retries", "prices", "budget", "name")
"""Options that say how to run, not what."""

WHAT_THERE_IS = ("benchmarks", "harnesses", "models", "count", "seed", "tasks", "repeats")
"""Options that say which cells and slots an experiment has."""


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _texts(key)
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)

"""The faults of the model wire and how each harness ends under them, read from `model_faults.yaml`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import yaml
from pydantic import JsonValue

from atp.models.scripted.script import ScriptStep
from atp.protocol.base import Frozen
from atp.protocol.errors import Fault
from atp.protocol.status import Status, StopReason

FIXTURE = Path(__file__).parent / "model_faults.yaml"


@dataclass(frozen=True, slots=True)
class Column:
    """A way in which a harness asks its model."""

    name: str
    harness: str
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def streamed(self) -> bool:
        """Whether it asks for streams."""
        return "stream" in self.options


_STREAM, _RESPONSES = {"stream": "true"}, {"dialect": "openai-responses"}

COLUMNS = (
    Column("thinloop", "thinloop"),
    Column("langgraph", "langgraph"),
    Column("langgraph-stream", "langgraph", _STREAM),
    Column("openai-agents", "openai-agents"),
    Column("openai-agents-stream", "openai-agents", _STREAM),
    Column("openai-agents-responses", "openai-agents", _RESPONSES),
    Column("openai-agents-responses-stream", "openai-agents", {**_RESPONSES, **_STREAM}),
    Column("smolagents", "smolagents"),
    Column("crewai", "crewai"),
    Column("crewai-stream", "crewai", _STREAM),
    Column("google-adk", "google-adk"),
    Column("google-adk-stream", "google-adk", _STREAM),
    Column("google-adk-chat", "google-adk", {"dialect": "openai-chat"}),
)


class Ending(Frozen):
    """How an attempt ends under a fault, and what the records show of it."""

    columns: tuple[str, ...]
    """Shell patterns of columns; the first ending of a fault that fits a column is the column's."""
    status: Status
    stop_reason: StopReason
    fault: Fault | None = None
    """None where there is no error."""
    score: float | None = None
    """Of what was answered or left; None where the run is not graded."""
    tries: int = 1
    """Attempts of the engine, one further try allowed."""
    requests: int
    """That reached the endpoint in each attempt: the SDK's own retries show here."""
    ran: tuple[JsonValue, ...] = ()
    """Arguments of the calls that the tool was run with, in no order."""
    refused: int = 0
    """Calls that the binding answered with an error."""
    native: tuple[str, ...] = ()
    """Codes of what the harness did by its nature."""
    differences: tuple[str, ...] = ()
    """Codes of what the records disagree about."""
    source: str
    """Where it is stated that this is so."""


class WireFault(Frozen):
    """Something that goes wrong between a harness and its model."""

    name: str
    what: str
    streamed: bool = False
    """Whether only a stream can have it."""
    never_on: tuple[str, ...] = ()
    """Shell patterns of columns whose dialect has no form for it."""
    steps: tuple[ScriptStep, ...]
    """What the model says, and what goes wrong with it."""
    ends: tuple[Ending, ...]

    def happens_on(self, column: Column) -> bool:
        """Whether the column can have it."""
        fits = any(fnmatchcase(column.name, pattern) for pattern in self.never_on)
        return not fits and (column.streamed or not self.streamed)

    def ending(self, column: Column) -> Ending:
        """How the column ends under it.

        Raises:
            LookupError: The fixture does not say.
        """
        for ending in self.ends:
            if any(fnmatchcase(column.name, pattern) for pattern in ending.columns):
                return ending
        raise LookupError(f"{FIXTURE.name}: nothing is said of {self.name} on {column.name}")

    @property
    def rate_limit(self) -> bool:
        """Whether the provider says 429."""
        return any(fault.status == 429 for step in self.steps for fault in step.faults)

    @property
    def silent(self) -> bool:
        """Whether nothing more comes, so that only a timeout ends it."""
        return any(fault.hang is not None for step in self.steps for fault in step.faults)

    def plain_steps(self) -> list[dict[str, Any]]:
        """The steps as a script file has them."""
        return [step.model_dump(mode="json", exclude_defaults=True) for step in self.steps]


def faults() -> Sequence[WireFault]:
    """All of them, in the order of the file."""
    data = yaml.safe_load(FIXTURE.read_text(encoding="utf-8"))
    return [WireFault.model_validate(fault) for fault in data["faults"]]

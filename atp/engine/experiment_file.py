"""`atp run -f EXPERIMENT.yaml`: the options of a run in a file, named as on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Self, TypeAlias

from pydantic import BeforeValidator, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, model_validator

from atp.models.located_yaml import validated, yaml_text
from atp.protocol.base import Frozen


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


Names: TypeAlias = Annotated[
    list[str],
    Field(min_length=1),
    BeforeValidator(_as_list, json_schema_input_type=str | list[str]),
]
"""One, or a list of several."""


def _option_name(field: str) -> str:
    return field.replace("_", "-")


class ExperimentFile(Frozen):
    """Every key is an option of `atp run` without its hyphens; what is left out is as on the command line."""

    model_config = ConfigDict(alias_generator=_option_name, strict=True)

    benchmark: Names | None = None
    """Benchmarks, or `file:TASKS.jsonl`."""
    harness: Names | None = None
    model: Names | None = None
    """`provider/model`, or `scripted/NAME`."""
    count: int | None = Field(default=None, alias="n", ge=1)
    """Tasks, sampled without replacement."""
    everything: bool | None = Field(default=None, alias="all")
    """All tasks."""
    seed: int | None = None
    """Of the sample."""
    task: Names | None = None
    """Ids of tasks, in place of a sample."""
    repeats: int | None = Field(default=None, ge=1)
    """Slots for each task."""
    concurrency: int | None = Field(default=None, ge=1)
    """Attempts at once."""
    workers: int | None = Field(default=None, ge=0)
    """Worker processes; 0: in the engine's process."""
    python: str | None = None
    """Path of the interpreter that the harness runs on."""
    base_url: str | None = None
    """Of an OpenAI-compatible server."""
    user_model: str | None = None
    """Plays the user of a conversation."""
    user_base_url: str | None = None
    """Of its server; left out it is `base-url`."""
    max_turns: int | None = Field(default=None, ge=1)
    """Model calls of an attempt."""
    deadline: float | None = Field(default=None, ge=0.001)
    """Seconds of an attempt."""
    model_timeout: float | None = Field(default=None, ge=0.001)
    """Seconds of a model call."""
    max_output_tokens: int | None = Field(default=None, ge=1)
    """Of one reply."""
    max_total_tokens: int | None = Field(default=None, ge=1)
    """Of an attempt."""
    max_cost: float | None = Field(default=None, ge=0.000001)
    """USD of an attempt."""
    budget: float | None = Field(default=None, ge=0)
    """USD of the experiment."""
    prices: str | None = None
    """Path of a file with prices of models, looked up before the built-in ones."""
    temperature: float | None = Field(default=None, ge=0)
    retries: int | None = Field(default=None, ge=0)
    """Further tries after faults that may pass."""
    option: dict[str, str | StrictBool | StrictInt | StrictFloat] | None = Field(default=None, alias="o")
    """`benchmark.KEY` or `harness.KEY` -> value."""
    no_monitor: bool | None = None
    """Run without an instrument; the result says so."""
    name: str | None = None
    """Of the experiment."""

    @model_validator(mode="after")
    def _one_choice_of_tasks(self) -> Self:
        chosen = [
            key for key, given in (("n", self.count), ("all", self.everything), ("task", self.task)) if given
        ]
        if len(chosen) > 1:
            raise ValueError(f"{' and '.join(chosen)} exclude each other: give one of n, all, task")
        return self

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a file.

        Raises:
            InvalidInput: It cannot be read, is no YAML, or breaks the format; the message names the
                file, the line and the key.
        """
        kind = "experiment file"
        return validated(
            cls, yaml_text(path, kind), f"{kind} {path}", "name a benchmark, a harness and a model"
        )

    def arguments(self) -> dict[str, Any]:
        """What the file gives, by the names of the parameters of the command and as it takes them."""
        given = self.model_dump(exclude_none=True)
        given |= {name: Path(given[name]) for name in ("python", "prices") if name in given}
        if self.option is not None:
            given["option"] = [f"{key}={_text(value)}" for key, value in self.option.items()]
        return given


def _text(value: str | bool | int | float) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)

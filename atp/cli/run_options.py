"""The options that say what an experiment is and how it runs, for all commands that take them."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from atp.cli.options import Option, options_by_owner

Workers = Annotated[int, typer.Option("--workers", min=0, help="Worker processes; 0: in this process.")]
Python = Annotated[
    Path | None, typer.Option("--python", metavar="PATH", help="Run the harness on this interpreter.")
]
BaseUrl = Annotated[
    str | None, typer.Option("--base-url", metavar="URL", help="Of an OpenAI-compatible server.")
]
UserModel = Annotated[
    str | None,
    typer.Option("--user-model", metavar="MODEL", help="Plays the user of a conversation."),
]
UserBaseUrl = Annotated[
    str | None,
    typer.Option("--user-base-url", metavar="URL", help="Of its server. [default: --base-url]"),
]


def _declared(
    benchmark: Annotated[
        list[str] | None, typer.Option("-b", "--benchmark", metavar="BENCHMARK", help="Or file:TASKS.jsonl.")
    ] = None,
    harness: Annotated[list[str] | None, typer.Option("-H", "--harness", metavar="HARNESS")] = None,
    model: Annotated[
        list[str] | None,
        typer.Option("-m", "--model", metavar="MODEL", help="provider/model, or scripted/NAME."),
    ] = None,
    count: Annotated[int, typer.Option("-n", min=1, help="Tasks, sampled without replacement.")] = 40,
    everything: Annotated[bool, typer.Option("--all", help="All tasks.")] = False,
    seed: Annotated[int, typer.Option("--seed", help="Of the sample.")] = 0,
    task: Annotated[
        list[str] | None, typer.Option("--task", metavar="ID", help="This task, no sample.")
    ] = None,
    repeats: Annotated[int, typer.Option("--repeats", min=1, help="Slots for each task.")] = 1,
    concurrency: Annotated[int, typer.Option("-c", "--concurrency", min=1, help="Attempts at once.")] = 8,
    workers: Workers = 1,
    python: Python = None,
    base_url: BaseUrl = None,
    user_model: UserModel = None,
    user_base_url: UserBaseUrl = None,
    max_turns: Annotated[
        int | None, typer.Option("--max-turns", min=1, help="Model calls of an attempt.")
    ] = None,
    deadline: Annotated[
        float | None, typer.Option("--deadline", min=0.001, help="Seconds of an attempt. [default: 1800]")
    ] = None,
    model_timeout: Annotated[
        float | None, typer.Option("--model-timeout", min=0.001, help="Seconds of one try of a model call.")
    ] = None,
    max_output_tokens: Annotated[
        int | None, typer.Option("--max-output-tokens", min=1, help="Of one reply.")
    ] = None,
    max_total_tokens: Annotated[
        int | None, typer.Option("--max-total-tokens", min=1, help="Of an attempt.")
    ] = None,
    max_cost: Annotated[
        float | None, typer.Option("--max-cost", min=0.000001, help="USD of an attempt.")
    ] = None,
    budget: Annotated[
        float | None, typer.Option("--budget", min=0, help="USD of the experiment; free to change on resume.")
    ] = None,
    prices: Annotated[
        Path | None, typer.Option("--prices", metavar="FILE", help="Prices of models, before the built-in.")
    ] = None,
    temperature: Annotated[
        float | None, typer.Option("--temperature", min=0, help="[default: the provider's]")
    ] = None,
    retries: Annotated[
        int, typer.Option("--retries", min=0, help="Further tries after faults that may pass.")
    ] = 2,
    option: Option = None,
    no_monitor: Annotated[
        bool, typer.Option("--no-monitor", help="Run without an instrument; the result says so.")
    ] = False,
    name: Annotated[str | None, typer.Option("--name", help="A name for the experiment.")] = None,
) -> None:
    """Only its signature is used."""


DECLARED = tuple(
    parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
    for parameter in inspect.signature(_declared, eval_str=True).parameters.values()
)
"""The options as parameters of a command."""

_FIELDS: Mapping[str, tuple[str, ...]] = {
    "benchmark": ("benchmarks",),
    "harness": ("harnesses",),
    "model": ("models",),
    "count": ("count",),
    "seed": ("seed",),
    "task": ("tasks",),
    "repeats": ("repeats",),
    "concurrency": ("concurrency",),
    "workers": ("workers",),
    "python": ("python",),
    "base_url": ("base_url",),
    "user_model": ("user_model",),
    "user_base_url": ("user_base_url",),
    "max_turns": ("limits", "max_turns"),
    "deadline": ("limits", "deadline"),
    "model_timeout": ("limits", "model_timeout"),
    "max_total_tokens": ("limits", "max_total_tokens"),
    "max_cost": ("limits", "max_cost"),
    "max_output_tokens": ("sampling", "max_output_tokens"),
    "temperature": ("sampling", "temperature"),
    "budget": ("budget",),
    "prices": ("prices",),
    "retries": ("retries",),
    "name": ("name",),
}
"""Option -> where its value stands in `RunOptions`, those aside that say it in another form."""


def as_fields(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """What some options say, as fields of `RunOptions`; of nested ones only what is said.

    Raises:
        InvalidInput: An `-o` that is none.
    """
    fields: dict[str, Any] = {}
    for argument, value in arguments.items():
        if argument not in _FIELDS:
            continue
        if isinstance(value, list):
            value = tuple(dict.fromkeys(value))
        if value is not None:
            *outer, field = _FIELDS[argument]
            place = fields
            for each in outer:
                place = place.setdefault(each, {})
            place[field] = value
    if arguments.get("everything"):
        fields["count"] = None
    if arguments.get("no_monitor"):
        fields["monitored"] = False
    if arguments.get("option"):
        fields |= options_by_owner(arguments["option"], ("benchmark", "harness"))
    return fields

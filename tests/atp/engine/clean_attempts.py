"""Attempts at which nothing is wrong, over harnesses, models, dialogues, streams and retries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ledger.tasks import tasks

from atp.protocol.task import TaskInput
from tests.atp.conformance.ledger_scripts import steps, write_script
from tests.atp.engine.experiments import Lab

HARNESSES = ("thinloop", "langgraph", "openai-agents", "smolagents", "crewai", "google-adk")
ASK_AGAIN_WHEN_TOLD = frozenset({"thinloop", "google-adk"})
"""Harnesses whose client tries nothing again unless `-o harness.retries` says so."""
_STREAMING: Mapping[str, Mapping[str, str]] = {
    "crewai": {"stream": "true"},
    "google-adk": {"stream": "true"},
    "langgraph": {"stream": "true"},
    "openai-agents": {"stream": "true", "dialect": "openai-responses"},
}
"""Options of the harnesses that can ask for a stream; of the Agents SDK the other dialect with it."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Some attempts of one harness that are run together."""

    harness: str
    benchmark: str = "ledger"
    model: str = "scripted/oracle"
    script: Mapping[str, list[dict[str, Any]]] | None = None
    """In place of the model."""
    count: int = 4
    options: Mapping[str, Any] = field(default_factory=dict)

    async def run(self, folder: Path) -> list[dict[str, Any]]:
        """Run them; gives their results."""
        model = self.model if self.script is None else write_script(folder / "script.yaml", self.script)
        outcome = await Lab(folder).run(
            self.benchmark, self.harness, models=(model,), count=self.count, **self.options
        )
        attempts: list[dict[str, Any]] = outcome["attempts"]
        return attempts


def all_batches(harness: str) -> Sequence[Batch]:
    """Fifty attempts of a harness."""
    streaming = {"harness_options": _STREAMING.get(harness, {})}
    return [
        Batch(harness, count=12),
        Batch(harness, count=6, options={"benchmark_options": {"tasks": "12", "lines": "5"}}),
        Batch(harness, model="scripted/noop"),
        Batch(harness, count=4, options=streaming),
        scripted(harness, 6),
        scripted(harness, 6, streaming),
        Batch(harness, "tau3-airline", count=12),
    ]


def sample(harness: str) -> Batch:
    """A few attempts of a harness with nearly everything in them."""
    return scripted(harness, 6, {"harness_options": _STREAMING.get(harness, {})})


def scripted(harness: str, count: int, options: Mapping[str, Any] | None = None) -> Batch:
    """Scripts with calls in parallel, replies that need a second or third try, and five-line dialogues."""
    chosen = [item.task for item in tasks(count, 7, 5)]
    more = dict(options or {})
    if harness in ASK_AGAIN_WHEN_TOLD:
        more["harness_options"] = {**more.get("harness_options", {}), "retries": "2"}
    return Batch(
        harness,
        script={task.task_id: _script(task, index) for index, task in enumerate(chosen)},
        count=count,
        options={**more, "benchmark_options": {"tasks": str(count), "lines": "5"}},
    )


def _script(task: TaskInput, index: int) -> list[dict[str, Any]]:
    failed = [[], [503], [500, 502]][index % 3]
    said = steps(task, failed)
    look = {"name": "balance", "arguments": {"account": "acc-1"}}
    said[0] = {**said[0], "text": "First the account.", "tool_calls": [*said[0]["tool_calls"], look, look]}
    # Three lines more than the two that ask for something.
    return said if task.instruction else [*said, *[said[-1]] * 3]

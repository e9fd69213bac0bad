"""Gold never reaches the harness side: change it, and nothing that arrives there changes.

A metamorphic test, for every registered benchmark: two runs of the same tasks whose gold differs,
under a model that does not know it. Everything the worker receives over the link and everything on
the model's wire must be the same to the byte, ids and times aside.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from atp import registry
from atp.engine import datasets, environments, workers
from atp.engine.home import home
from atp.protocol.benchmark import Benchmark
from atp.protocol.cards import HubSource
from atp.protocol.task import AgentTask, Expected, TaskInput
from atp.worker.frames import FrameReader
from atp.worker.link import Link, LinkHandler, memory_pair
from tests.atp.engine.experiments import Lab

FIXED_SCRIPT = "steps:\n- {text: 'First answer.'}\n- {text: 'Second answer.'}\n- {text: 'Third answer.'}\n"
IDENTITIES = ("run_id", "trace_id", "request", "reply_to", "base_url", "api_key")


def altered(value: Any) -> Any:
    """Plain data of the same shape in which every leaf differs."""
    match value:
        case dict():
            return {key: altered(item) for key, item in value.items()}
        case list() | tuple():
            return [altered(item) for item in value]
        case bool():
            return not value
        case int() | float():
            return value + 1
        case str():
            return value + " (altered)"
        case _:
            return value


def with_altered_gold(task: TaskInput) -> TaskInput:
    assert task.expected is not None, f"{task.task_id} has no gold to alter"
    gold = Expected.model_validate(altered(task.expected.model_dump(mode="json")))
    assert gold != task.expected
    return task.model_copy(update={"expected": gold})


def test_every_field_of_a_task_that_is_gold_is_altered() -> None:
    """The test's own check: should `TaskInput` gain a field, somebody decides whether it is gold."""
    assert set(TaskInput.model_fields) - set(AgentTask.model_fields) == {"expected"}


class Tap:
    """Everything that arrives at the worker's end of the link."""

    def __init__(self) -> None:
        self.messages: list[Any] = []

    def pair(self, engine: LinkHandler, host: LinkHandler) -> tuple[Link, Link]:
        ours, theirs = memory_pair(engine, host)
        reader, deliver = FrameReader(), theirs.data_received

        def tapped(data: bytes) -> None:
            self.messages.extend(received.message for received in reader.feed(data))
            deliver(data)

        theirs.data_received = tapped  # type: ignore[method-assign]
        return ours, theirs


def without_identities(value: Any) -> Any:
    match value:
        case dict():
            return {key: without_identities(item) for key, item in value.items() if key not in IDENTITIES}
        case list():
            return [without_identities(item) for item in value]
        case _:
            return value


async def harness_side(
    lab: Lab, benchmark: str, model: str, monkeypatch: pytest.MonkeyPatch
) -> tuple[bytes, list[dict[str, Any]]]:
    """What reached the harness side: link messages and the requests on the wire, as bytes."""
    tap = Tap()
    monkeypatch.setattr(workers, "memory_pair", tap.pair)
    outcome = await lab.run(benchmark, models=[model], count=3, workers=0, concurrency=1)
    log = home() / "logs" / outcome["experiment"] / "wire.jsonl"
    wire = [json.loads(line)["body"] for line in log.read_text(encoding="utf-8").splitlines()]
    acknowledgements = ({"type": "reply", "error": None},)
    said = [message for message in map(without_identities, tap.messages) if message not in acknowledgements]
    return json.dumps([said, wire]).encode(), outcome["attempts"]


@pytest.fixture
def tasks_file(tmp_path: Path) -> str:
    path = tmp_path / "tasks.jsonl"
    lines = [
        {"task_id": f"t{i}", "instruction": f"Add {i} and 2.", "expected": {"outputs": [str(i + 2)]}}
        for i in range(3)
    ]
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    return f"file:{path}"


@pytest.mark.parametrize("model", ["noop", "script"])
@pytest.mark.parametrize("benchmark_name", [*registry.benchmarks(), "file"])
async def test_altered_gold_changes_nothing_that_the_harness_side_receives(
    lab: Lab,
    benchmark_name: str,
    model: str,
    tasks_file: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    script = tmp_path / "script.yaml"
    script.write_text(FIXED_SCRIPT, encoding="utf-8")
    name = tasks_file if benchmark_name == "file" else benchmark_name
    asked = "scripted/noop" if model == "noop" else f"scripted/file:{script}"
    kind = type(registry.benchmark(name))
    original = kind.load

    def load(self: Benchmark, data: Path | None) -> Sequence[TaskInput]:
        return [with_altered_gold(task) for task in original(self, data)]

    data = registry.benchmark(name).card.data
    if isinstance(data, HubSource):
        request.getfixturevalue("gsm8k_hub")
    if data is not None:
        await datasets.get(data)
    await environments.create(registry.benchmark(name).card)
    before, first = await harness_side(lab, name, asked, monkeypatch)
    monkeypatch.setattr(kind, "load", load)
    after, second = await harness_side(lab, name, asked, monkeypatch)
    assert len(first) == len(second) == 3
    assert {attempt["status"] for attempt in first + second} == {"completed"}
    assert before == after
    assert b"(altered)" not in after

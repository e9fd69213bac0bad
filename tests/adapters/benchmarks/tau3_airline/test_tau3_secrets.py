"""Nothing of the real data passes for a secret: reservations, payments, policy, tools."""

from __future__ import annotations

from pathlib import Path

from adapters.benchmarks.tau3_airline import Tau3Airline
from atp.protocol.redaction import Redactor


def test_no_file_of_the_benchmark_holds_what_would_be_redacted(airline_data: Path) -> None:
    redactor = Redactor()
    looked_at = 0
    for path in airline_data.rglob("*"):
        if path.suffix in {".json", ".md", ".jsonl", ".txt"} and path.is_file():
            text = path.read_text(encoding="utf-8")
            assert redactor.text(text) is text, path
            looked_at += len(text)
    assert looked_at > 1_000_000


async def test_its_tasks_its_prompt_and_its_tools_stay_as_they_are(airline_data: Path) -> None:
    redactor, benchmark = Redactor(), Tau3Airline()
    tasks = benchmark.load(airline_data)
    for task in tasks:
        value = task.model_dump(mode="json")
        assert redactor.value(value) is value
    environment = benchmark.environment(tasks[0])
    await environment.open()
    try:
        tools = [tool.model_dump(mode="json") for tool in environment.tools]
        assert redactor.value(tools) is tools
        assert environment.system_prompt is not None
        assert redactor.text(environment.system_prompt) is environment.system_prompt
    finally:
        await environment.close()

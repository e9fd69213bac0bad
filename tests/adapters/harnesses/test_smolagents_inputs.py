"""JSON Schemas as smolagents inputs: what a property means survives smolagents' own rendering."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from adapters.harnesses.smolagents_inputs import tool_inputs
from atp.protocol.errors import InvalidInput

_SCALARS: st.SearchStrategy[Any] = st.sampled_from([None, True, False, 0, 1, -3, 2.0, 0.5, "", "a", "b"])
_VALUES: st.SearchStrategy[Any] = st.recursive(
    _SCALARS,
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["x", "y"]), inner, max_size=2)
    ),
    max_leaves=4,
)
_PLAIN: st.SearchStrategy[Any] = st.sampled_from(
    [
        {},
        True,
        {"type": "string"},
        {"type": "string", "enum": ["a", "b"]},
        {"enum": ["a", 1, None]},
        {"const": "a"},
        {"type": "integer", "minimum": 0},
        {"type": "number"},
        {"type": "boolean"},
        {"type": "null"},
        {"type": ["number", "null"]},
        {"type": "array", "items": {"type": "integer"}},
        {"type": "object", "properties": {"x": {"type": "string"}}, "additionalProperties": False},
        {"type": "string", "not": {"const": "a"}},
        {"$ref": "#/$defs/item"},
    ]
)
_SCHEMAS: st.SearchStrategy[Any] = st.recursive(
    _PLAIN,
    lambda inner: st.builds(
        lambda keyword, members, more: {keyword: members, **more},
        st.sampled_from(["anyOf", "oneOf", "allOf"]),
        st.lists(inner, min_size=1, max_size=3),
        st.sampled_from([{}, {"default": None}, {"description": "One."}, {"type": ["string", "null"]}]),
    ),
    max_leaves=5,
)
_DEFS = {
    "item": {"type": "object", "properties": {"y": {"$ref": "#/$defs/name"}}},
    "name": {"type": "string"},
}


def on_the_wire(parameters: dict[str, Any]) -> dict[str, Any]:
    """The parameters as smolagents itself renders a tool with these inputs."""
    from smolagents import Tool
    from smolagents.models import get_tool_json_schema

    class Given(Tool):  # type: ignore[misc]  # the SDK has no types
        name = "given"
        description = ""
        inputs = tool_inputs(parameters)
        output_type = "string"
        skip_forward_signature_validation = True

    rendered: dict[str, Any] = get_tool_json_schema(Given())["function"]["parameters"]
    return rendered


@given(schema=_SCHEMAS, value=_VALUES, optional=st.booleans())
def test_the_wire_allows_what_the_benchmark_allows(schema: Any, value: Any, optional: bool) -> None:
    parameters = {
        "type": "object",
        "properties": {"p": schema},
        "required": [] if optional else ["p"],
        "$defs": _DEFS,
    }
    wire = on_the_wire(parameters)
    there = Draft202012Validator(parameters).is_valid({"p": value})
    assert Draft202012Validator(wire).is_valid({"p": value}) is there
    assert wire["required"] == parameters["required"]


@given(schema=_SCHEMAS, value=_VALUES)
def test_smolagents_refuses_no_value_that_the_benchmark_allows(schema: Any, value: Any) -> None:
    from types import SimpleNamespace

    from smolagents.tools import validate_tool_arguments

    parameters: dict[str, Any] = {
        "type": "object",
        "properties": {"p": schema},
        "required": ["p"],
        "$defs": _DEFS,
    }
    inputs = tool_inputs(parameters)
    # smolagents knows a type by its Python class: for it 2.0 is no integer, which JSON Schema allows.
    if Draft202012Validator(parameters).is_valid({"p": value}) and not (
        isinstance(value, float) and "number" not in inputs["p"]["type"]
    ):
        validate_tool_arguments(SimpleNamespace(inputs=inputs), {"p": value})


def test_optional_properties_alone_are_nullable() -> None:
    parameters: dict[str, Any] = {
        "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        "required": ["a"],
    }
    assert tool_inputs(parameters) == {
        "a": {"type": "string", "description": ""},
        "b": {"type": "string", "description": "", "nullable": True},
    }


def test_what_is_described_within_any_of_and_null_stays_described() -> None:
    money = {
        "type": "object",
        "description": "An amount.",
        "properties": {"cents": {"type": "integer"}},
        "required": ["cents"],
    }
    parameters: dict[str, Any] = {
        "properties": {"sum": {"anyOf": [money, {"type": "null"}], "default": None}}
    }
    assert on_the_wire(parameters)["properties"] == {
        "sum": {**money, "type": ["object", "null"], "default": None, "nullable": True}
    }


@pytest.mark.parametrize(
    ("reference", "says"),
    [
        ("#/$defs/missing", "does not exist"),
        ("https://example.org/schema", "not within it"),
        ("#/$defs/loop", "refers to itself"),
    ],
)
def test_a_reference_that_cannot_be_replaced_is_an_error(reference: str, says: str) -> None:
    parameters: dict[str, Any] = {
        "properties": {"p": {"$ref": reference}},
        "$defs": {"loop": {"type": "array", "items": {"$ref": "#/$defs/loop"}}},
    }
    with pytest.raises(InvalidInput, match=says):
        tool_inputs(parameters)

"""Schemas of tools as CrewAI can express them, and arguments on their way back."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from ledger.tools import TOOLS as LEDGER_TOOLS

from adapters.harnesses.crewai import CARD
from adapters.harnesses.crewai_schema import tool_schema, wire_parameters, without_nulls_for_absent
from atp.conformance.probe_tools import TOOLS as PROBE_TOOLS
from atp.engine import environments
from atp.engine.virtual_environment import ask
from atp.protocol.errors import InvalidInput

SENT_BY_CREWAI = Path(__file__).parent / "sent_by_crewai.py"
NULL = {"type": "null"}

AWKWARD: dict[str, Any] = {
    "optional": {"type": "string", "description": "d", "default": "x", "format": "email", "title": "T"},
    "title": {"type": "string", "format": "date"},
    "either": {"oneOf": [{"type": "integer"}, {"$ref": "#/$defs/Pair"}]},
    "open": {"type": "object", "additionalProperties": {"type": "string"}},
    "object_or_text": {"type": ["object", "string"], "properties": {"a": {"type": "integer"}}},
    "choice": {"type": "string", "enum": ["a", "b"]},
    "anything": {},
    "list": {"type": "array", "items": {"$ref": "#/$defs/Pair"}},
    "deep": {"anyOf": [{"type": "array", "items": {"anyOf": [{"$ref": "#/$defs/Pair"}, NULL]}}, NULL]},
}
PARAMETERS: dict[str, Any] = {
    "type": "object",
    "title": "Awkward",
    "properties": AWKWARD,
    "required": ["choice"],
    "$defs": {
        "Pair": {
            "type": "object",
            "properties": {"left": {"type": "integer", "default": 1}, "right": {"type": "integer"}},
            "required": ["right"],
        }
    },
}


def test_what_crewai_sends_is_what_the_card_says_that_it_sends(tmp_path: Path) -> None:
    python = asyncio.run(environments.create(CARD)).python
    schemas = [PARAMETERS, {"type": "object"}, *(tool.parameters for tool in (*PROBE_TOOLS, *LEDGER_TOOLS))]
    given = tmp_path / "schemas.json"
    given.write_text(json.dumps([tool_schema(schema) for schema in schemas]), encoding="utf-8")
    sent = json.loads(ask(python, SENT_BY_CREWAI, given))
    assert sent == [wire_parameters(schema) for schema in schemas]


def test_what_may_be_left_out_is_required_and_nullable() -> None:
    schema = tool_schema({"type": "object", "properties": {"note": {"type": "string", "description": "d"}}})
    assert schema == {
        "type": "object",
        "properties": {"note": {"anyOf": [{"type": "string"}, NULL], "description": "d"}},
        "required": ["note"],
        "additionalProperties": False,
    }


def test_a_null_for_what_may_be_left_out_is_taken_as_left_out() -> None:
    written = {
        "choice": "a",
        "optional": None,
        "anything": None,
        "list": [{"left": None, "right": 2}],
        "deep": [None, {"left": None, "right": 3}],
        "either": {"left": None, "right": 4},
    }
    assert without_nulls_for_absent(written, PARAMETERS) == {
        "choice": "a",
        "anything": None,
        "list": [{"right": 2}],
        "deep": [None, {"right": 3}],
        "either": {"right": 4},
    }


def test_a_null_that_the_schema_allows_or_does_not_know_is_kept() -> None:
    parameters: dict[str, Any] = {
        "type": "object",
        "properties": {
            "until": {"anyOf": [{"type": "integer"}, NULL]},
            "named": {"enum": ["a", None]},
            "needed": {"type": "string"},
        },
        "required": ["needed"],
    }
    written = {"until": None, "named": None, "needed": None, "unknown": None}
    assert without_nulls_for_absent(written, parameters) == written


def test_arguments_without_nulls_stay_as_they_are() -> None:
    written = {"choice": "", "list": [], "open": {"k": "v"}, "anything": [0, 2.0, False]}
    assert without_nulls_for_absent(written, PARAMETERS) == written


@pytest.mark.parametrize(
    ("parameters", "why"),
    [
        ({"type": "object", "properties": {"self": {"type": "string"}}}, "named 'self'"),
        ({"type": "object", "properties": {"a": {"$ref": "#"}}}, "refers to itself"),
    ],
)
def test_what_crewai_cannot_have_is_refused(parameters: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        tool_schema(parameters)

"""The probe's tools: every form of schema that benchmarks use, and every kind of result."""

from __future__ import annotations

import asyncio
from typing import Any

from pydantic import JsonValue

from atp.protocol.environment import ToolSpec
from atp.protocol.errors import ToolFailed

LONG = 200 * 1024
"""Characters of the long result."""

_PARTY: JsonValue = {
    "type": "object",
    "description": "Who comes.",
    "properties": {
        "name": {"type": "string", "minLength": 1},
        "seats": {"type": "integer", "minimum": 1},
    },
    "required": ["name", "seats"],
    "additionalProperties": False,
}


def _tool(name: str, description: str, properties: dict[str, JsonValue], *required: str) -> ToolSpec:
    parameters: dict[str, JsonValue] = {
        "type": "object",
        "properties": properties,
        "required": list[JsonValue](required),
        "additionalProperties": False,
    }
    return ToolSpec(name=name, description=description, parameters=parameters)


BOOK = _tool(
    "book",
    "Book a table — “soon”, in words of any language: 予約.",
    {
        "room": {"type": "string", "enum": ["hall", "garden", "смотровая"], "description": "Which room."},
        "party": _PARTY,
        "dishes": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"dish": {"type": "string"}, "count": {"type": "integer", "default": 1}},
                "required": ["dish"],
            },
        },
        "note": {"type": "string", "description": "Left out where there is none."},
        "deposit": {"type": "number", "default": 10.5},
        "until": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None},
    },
    "room",
    "party",
)
"""An enum, a nested object, an array of objects, an optional field, defaults, a nullable one."""

LOCATE = ToolSpec(
    name="locate",
    description="Say where something is.",
    parameters={
        "type": "object",
        "title": "Locate",
        "$defs": {
            "Place": {
                "type": "object",
                "properties": {"street": {"type": "string"}, "number": {"type": "integer"}},
                "required": ["street"],
            }
        },
        "properties": {"near": {"$ref": "#/$defs/Place"}},
        "required": ["near"],
    },
)
"""A definition, referred to, and a title."""

ECHO = _tool("echo", "Give back the text.", {"text": {"type": "string"}}, "text")
FETCH = _tool("fetch", "Give a page.", {"page": {"type": "string", "enum": ["empty", "long"]}}, "page")
REFUSE = _tool("refuse", "Fail: what is asked for is locked.", {"what": {"type": "string"}}, "what")
PAUSE = _tool(
    "pause",
    "Take this many seconds, then give back the word.",
    {"seconds": {"type": "number"}, "word": {"type": "string"}},
    "seconds",
    "word",
)

TOOLS = (BOOK, LOCATE, ECHO, FETCH, REFUSE, PAUSE)


async def execute(name: str, arguments: dict[str, Any]) -> JsonValue:
    """Run one of the tools.

    Raises:
        ToolFailed: `refuse` was called.
    """
    match name:
        case "echo":
            return str(arguments["text"])
        case "fetch":
            return "" if arguments["page"] == "empty" else long_page()
        case "refuse":
            raise ToolFailed(f"the {arguments['what']} is locked (code 7)")
        case "pause":
            await asyncio.sleep(arguments["seconds"])
            return str(arguments["word"])
        case _:
            return {"done": name, "with": arguments}


def long_page() -> str:
    """The long result; no two lines of it are alike, so that a piece left out is seen."""
    lines = "".join(f"line {number:06d} of the page\n" for number in range(LONG // 24 + 1))
    return lines[: LONG - 4] + "last"

"""What the adapter says of schemas on the wire is what LangChain makes of them."""

from __future__ import annotations

from typing import Any

import pytest

from adapters.harnesses.langgraph_schema import wire_parameters
from atp.conformance.probe_tools import TOOLS

TITLED: dict[str, Any] = {
    "type": "object",
    "title": "Titled",
    "description": "Of the whole.",
    "$defs": {"Place": {"type": "object", "title": "Place", "properties": {"street": {"type": "string"}}}},
    "properties": {
        "title": {"type": "string", "title": "Title", "description": "A property of that name."},
        "place": {"$ref": "#/$defs/Place", "description": "Beside a reference."},
        "places": {"type": "array", "items": {"$ref": "#/$defs/Place"}},
        "either": {"anyOf": [{"type": "integer", "title": "Number"}, {"type": "null"}], "title": "Either"},
    },
    "required": ["title"],
}


@pytest.mark.parametrize("parameters", [TITLED, *(tool.parameters for tool in TOOLS)])
def test_it_is_what_langchain_sends(parameters: dict[str, Any]) -> None:
    from langchain_core.tools import StructuredTool
    from langchain_core.utils.function_calling import convert_to_openai_tool

    async def nothing() -> None: ...

    tool = StructuredTool(name="t", description="d", args_schema=dict(parameters), coroutine=nothing)
    assert convert_to_openai_tool(tool)["function"]["parameters"] == wire_parameters(parameters)

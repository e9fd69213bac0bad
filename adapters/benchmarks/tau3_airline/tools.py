"""The tools: declared as the official environment declares them, called as it calls them.

The rules are those of `tau2/environment/tool.py` (`Tool.parse_data`, `Tool.openai_schema`) and
`tau2/environment/environment.py` (`get_response`, `to_json_str`): the schema is pydantic's for the
function's annotations with the descriptions of its docstring; a call is a plain Python call without
any check, so 2.0 stays apart from 2.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, Field, create_model

from atp.protocol.environment import ToolSpec

_SECTION = re.compile(r"^(Args|Returns|Raises):\s*$")
_PARAMETER = re.compile(r"^\s+(\w+): (.*)$")


@dataclass(frozen=True, slots=True)
class Response:
    """What the model is told: the official tool message."""

    content: str
    error: bool


def declared(functions: Mapping[str, Callable[..., Any]]) -> Sequence[ToolSpec]:
    """The declarations of the tool functions, in their order."""
    return tuple(_declared(name, function) for name, function in functions.items())


def respond(tools: Any, name: str, arguments: Mapping[str, Any]) -> Response:
    """Call a tool.

    Args:
        tools: The official tool object over an attempt's database.
        name: A tool it has.
        arguments: As delivered.

    Returns:
        The result as text; or, whatever the tool raised, the official error text.
    """
    try:
        value = getattr(tools, name)(**arguments)
    except Exception as error:  # noqa: BLE001  the official environment tells the model any error
        return Response(f"Error: {error}", True)
    return Response(value if isinstance(value, str) else json.dumps(_plain(value), default=str), False)


def _plain(value: Any) -> Any:
    match value:
        case BaseModel():
            return value.model_dump(warnings=False)
        case list() | tuple():
            return [_plain(item) for item in value]
        case _:
            # The official code turns a bare number into its text; no tool of the airline gives one.
            return value


def _declared(name: str, function: Callable[..., Any]) -> ToolSpec:
    summary, described = _documentation(inspect.getdoc(function) or "")
    parameters = [item for item in inspect.signature(function).parameters.values() if item.name != "self"]
    fields: dict[str, Any] = {
        item.name: (
            item.annotation,
            Field(... if item.default is item.empty else item.default, description=described.get(item.name)),
        )
        for item in parameters
    }
    schema = create_model("parameters", **fields).model_json_schema()
    return ToolSpec(name=name, description=summary, parameters=schema)


def _documentation(text: str) -> tuple[str, Mapping[str, str]]:
    """The description and the parameters' descriptions of a docstring in Google's style."""
    lines = text.strip().splitlines()
    first = next((at for at, line in enumerate(lines) if _SECTION.match(line)), len(lines))
    summary, _, rest = "\n".join(lines[:first]).strip().partition("\n")
    described: dict[str, str] = {}
    section = ""
    for line in lines[first:]:
        heading = _SECTION.match(line)
        section = heading[1] if heading else section
        parameter = _PARAMETER.match(line) if section == "Args" else None
        if parameter is not None:
            described[parameter[1]] = parameter[2].strip()
    return "\n\n".join(part for part in (summary.strip(), rest.strip()) if part), described

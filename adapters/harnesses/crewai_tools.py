"""The binding's tools as CrewAI tools."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from adapters.harnesses.announced_calls import AnnouncedCalls
from adapters.harnesses.crewai_schema import tool_schema, without_nulls_for_absent
from atp.protocol.environment import ToolSpec
from atp.protocol.errors import InvalidInput

DEFERRED_READER = "read_a_deferred_tool_result"
"""The tool that CrewAI brings along once it has put a long result aside."""

Call = Callable[[str, Any, str | None], str]
"""Makes a call at the binding: tool, arguments, call id; gives what the model reads."""


def binding_tools(specs: Sequence[ToolSpec], announced: AnnouncedCalls, call: Call) -> list[Any]:
    """One `crewai.tools.BaseTool` each.

    Raises:
        InvalidInput: A name or a schema that CrewAI cannot have.
    """
    return [_tool(spec, announced, call) for spec in specs]


def _tool(spec: ToolSpec, announced: AnnouncedCalls, call: Call) -> Any:
    from crewai.utilities.string_utils import sanitize_tool_name

    if sanitize_tool_name(spec.name) != spec.name:
        raise InvalidInput(
            f"CrewAI cannot have tool {spec.name!r}: it would be called {sanitize_tool_name(spec.name)!r}"
        )
    if spec.name == DEFERRED_READER:
        raise InvalidInput(f"CrewAI cannot have tool {spec.name!r}: it has one of its own by that name")
    try:
        schema = tool_schema(spec.parameters)
    except InvalidInput as error:
        raise InvalidInput(f"CrewAI cannot have tool {spec.name!r}: {error.message}") from error
    kind = _tool_class()

    def make(arguments: dict[str, Any]) -> str:
        delivered = without_nulls_for_absent(arguments, spec.parameters)
        return call(spec.name, delivered, announced.claim(spec.name, arguments))

    tool = kind(name=spec.name, description=spec.description, args_schema=_arguments_class(schema))
    tool.give(make)
    return tool


@lru_cache(maxsize=1)
def _tool_class() -> Any:
    from crewai.tools import BaseTool
    from pydantic import PrivateAttr

    class BindingTool(BaseTool):  # type: ignore[misc]  # the SDK is not there to be checked against
        # A tool says itself whether its results may be kept: these are a world's, which changes.
        cache_function: Any = _never
        _make: Callable[[dict[str, Any]], str] = PrivateAttr()

        def give(self, make: Callable[[dict[str, Any]], str]) -> None:
            self._make = make

        def _run(self, /, **arguments: Any) -> str:
            return self._make(arguments)

    return BindingTool


def _never(arguments: Any = None, result: Any = None) -> bool:
    return False


def _arguments_class(schema: dict[str, Any]) -> Any:
    """A class whose schema is the given one, and which takes whatever it is given: a class of fields would
    fill in defaults and turn values into others."""
    from pydantic import BaseModel, ConfigDict

    class Arguments(BaseModel):
        model_config = ConfigDict(extra="allow")

        @classmethod
        def model_json_schema(cls, *_: Any, **__: Any) -> dict[str, Any]:
            return schema

    return Arguments

"""The binding's tools as smolagents tools."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from adapters.harnesses.announced_calls import AnnouncedCalls
from adapters.harnesses.smolagents_inputs import tool_inputs
from atp.protocol.environment import ToolSpec
from atp.protocol.errors import InvalidInput

FINAL_ANSWER = "final_answer"
"""The tool that smolagents brings along."""

Call = Callable[[str, Any, str | None], str]
"""Makes a call at the binding: tool, arguments, call id; gives what the model reads."""


def binding_tools(specs: Sequence[ToolSpec], announced: AnnouncedCalls, call: Call) -> list[Any]:
    """One `smolagents.Tool` each.

    Raises:
        InvalidInput: A name or a schema that smolagents cannot have.
    """
    kind = _tool_class()
    return [kind(spec, _inputs(spec), announced, call) for spec in specs]


def _inputs(spec: ToolSpec) -> dict[str, dict[str, Any]]:
    from smolagents.utils import is_valid_name

    if not is_valid_name(spec.name):
        raise InvalidInput(f"smolagents cannot have tool {spec.name!r}: a name has to be a Python identifier")
    if spec.name == FINAL_ANSWER:
        raise InvalidInput(f"smolagents cannot have tool {spec.name!r}: it has one of its own by that name")
    try:
        return tool_inputs(spec.parameters)
    except InvalidInput as error:
        raise InvalidInput(f"smolagents cannot have tool {spec.name!r}: {error.message}") from error


@lru_cache(maxsize=1)
def _tool_class() -> Any:
    from smolagents import Tool

    class BindingTool(Tool):  # type: ignore[misc]  # the SDK has no types
        # The documented way for tools whose `forward` takes whatever `inputs` says.
        skip_forward_signature_validation = True
        output_type = "string"

        def __init__(
            self, spec: ToolSpec, inputs: dict[str, dict[str, Any]], announced: AnnouncedCalls, call: Call
        ) -> None:
            self.name = spec.name
            self.description = spec.description
            self.inputs = inputs
            self._announced = announced
            self._call = call
            super().__init__()

        def forward(self, /, *values: Any, **named: Any) -> str:
            # Arguments that are no object come as one value, for the first input.
            as_written = values[0] if values else named
            arguments: Mapping[str, Any] = {**dict(zip(self.inputs, values, strict=False)), **named}
            return self._call(self.name, arguments, self._announced.claim(self.name, as_written))

    return BindingTool

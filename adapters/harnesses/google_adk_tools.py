"""The binding's tools as ADK tools."""

from __future__ import annotations

from functools import cache
from typing import Any

from atp.protocol.binding import AgentBinding
from monitor.instruments.google_adk import GoogleADKInstrument

_OWN_ID = "adk-"
"""What ids begin with that ADK gives to calls which have none from the model."""


def binding_tools(binding: AgentBinding, instrument: GoogleADKInstrument | None) -> list[Any]:
    """One tool each, its JSON Schema given as it is (`parameters_json_schema`).

    Args:
        binding: Of the attempt.
        instrument: Knows which reply asked for a call that has no id; None without a monitor.
    """
    kind = _tool_class()
    return [kind(binding, instrument, tool) for tool in binding.tools]


@cache
def _tool_class() -> Any:
    from google.adk.tools.base_tool import BaseTool
    from google.genai.types import FunctionDeclaration

    class BindingTool(BaseTool):  # type: ignore[misc]  # ADK is not where types are checked
        def __init__(self, binding: AgentBinding, instrument: GoogleADKInstrument | None, tool: Any) -> None:
            super().__init__(name=tool.name, description=tool.description)
            self._binding = binding
            self._instrument = instrument
            self._schema = dict(tool.parameters)

        def _get_declaration(self) -> Any:
            return FunctionDeclaration(
                name=self.name, description=self.description, parameters_json_schema=self._schema
            )

        async def run_async(self, *, args: dict[str, Any], tool_context: Any) -> str:
            call_id: str | None = tool_context.function_call_id
            parent = None
            if call_id is None or call_id.startswith(_OWN_ID):
                call_id = None
                parent = self._instrument.asking() if self._instrument is not None else None
            result = await self._binding.call(self.name, args, call_id=call_id, parent=parent)
            return result.text

    return BindingTool

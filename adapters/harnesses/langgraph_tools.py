"""The binding's tools as LangChain tools."""

from __future__ import annotations

from contextvars import ContextVar
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from atp.protocol.binding import AgentBinding

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

_CALL_ID: ContextVar[str | None] = ContextVar("atp_langgraph_call_id", default=None)


def binding_tools(binding: AgentBinding) -> list[BaseTool]:
    """One tool each, its JSON Schema given as it is.

    A subclass of `BaseTool` rather than a `StructuredTool` around a function: the latter hands
    `config` and `run_manager` on beside the model's arguments and so loses arguments of those names.
    """
    kind = _tool_class()
    return [
        kind(
            binding,
            name=tool.name,
            description=tool.description,
            args_schema=dict(tool.parameters),
        )
        for tool in binding.tools
    ]


@lru_cache(maxsize=1)
def _tool_class() -> Any:
    from langchain_core.tools import BaseTool
    from pydantic import PrivateAttr

    class BindingTool(BaseTool):
        _binding: AgentBinding = PrivateAttr()

        def __init__(self, binding: AgentBinding, **fields: Any) -> None:
            super().__init__(**fields)
            self._binding = binding

        async def ainvoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:
            # The tool node gives the model's whole call, id included.
            call_id = (
                input.get("id") if isinstance(input, dict) and input.get("type") == "tool_call" else None
            )
            token = _CALL_ID.set(call_id)
            try:
                return await super().ainvoke(input, config, **kwargs)
            finally:
                _CALL_ID.reset(token)

        async def _arun(self, /, *args: Any, **arguments: Any) -> str:
            result = await self._binding.call(self.name, arguments, call_id=_CALL_ID.get())
            return result.text

        def _run(self, /, *args: Any, **arguments: Any) -> str:
            raise NotImplementedError(f"{self.name} is called asynchronously")

    return BindingTool

"""The binding's tools as LangChain tools."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from atp.protocol.binding import AgentBinding

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

_CALL_ID: ContextVar[str | None] = ContextVar("atp_langgraph_call_id", default=None)


class CallsFromThreads:
    """Calls of tools by synchronous nodes of a user's own graph, which LangGraph runs in threads. Made
    within the running event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._waiting: set[concurrent.futures.Future[str]] = set()
        self._stopped = False

    def call(self, name: str, function: Callable[[], Coroutine[Any, Any, str]]) -> str:
        """Run a call in the event loop and wait for it.

        Raises:
            NotImplementedError: The caller is a coroutine, which would wait for itself.
            concurrent.futures.CancelledError: The attempt has ended.
        """
        if threading.get_ident() == self._loop_thread:
            raise NotImplementedError(f"{name}: within a coroutine, use `await tool.ainvoke(...)`")
        future = asyncio.run_coroutine_threadsafe(function(), self._loop)
        self._waiting.add(future)
        if self._stopped:  # nobody would answer
            future.cancel()
        try:
            return future.result()
        finally:
            self._waiting.discard(future)

    def stop(self) -> None:
        """The attempt has ended: whoever waits is let go."""
        self._stopped = True
        for future in tuple(self._waiting):
            future.cancel()


def binding_tools(binding: AgentBinding, calls: CallsFromThreads) -> list[BaseTool]:
    """One tool each, its JSON Schema given as it is.

    A subclass of `BaseTool` rather than a `StructuredTool` around a function: the latter hands
    `config` and `run_manager` on beside the model's arguments and so loses arguments of those names.
    """
    kind = _tool_class()
    return [
        kind(
            binding,
            calls,
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
        _calls: CallsFromThreads = PrivateAttr()

        def __init__(self, binding: AgentBinding, calls: CallsFromThreads, **fields: Any) -> None:
            super().__init__(**fields)
            self._binding = binding
            self._calls = calls

        async def ainvoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:
            token = _CALL_ID.set(_call_id(input))
            try:
                return await super().ainvoke(input, config, **kwargs)
            finally:
                _CALL_ID.reset(token)

        def invoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:
            token = _CALL_ID.set(_call_id(input))
            try:
                return super().invoke(input, config, **kwargs)
            finally:
                _CALL_ID.reset(token)

        async def _arun(self, /, *args: Any, **arguments: Any) -> str:
            result = await self._binding.call(self.name, arguments, call_id=_CALL_ID.get())
            return result.text

        def _run(self, /, *args: Any, **arguments: Any) -> str:
            return self._calls.call(self.name, lambda: self._arun(**arguments))

    return BindingTool


def _call_id(called: Any) -> str | None:
    # The tool node gives the model's whole call, id included.
    return called.get("id") if isinstance(called, dict) and called.get("type") == "tool_call" else None

"""LangChain's asynchronous callback handler, kept thin: every hook hands on to the instrument.

Synchronous parts of a graph call the hooks in other threads; recording belongs to the event loop, so
there each hook is run while the thread waits for it.

The handler runs inline (`run_inline`), so what a hook sets in its context is seen by the call it
announces. Only hooks that may have to wait are coroutines: LangChain calls the others as they are,
which saves a coroutine for each node and each tool. LangChain logs and forgets what a handler
raises, or with `raise_error` lets it end the run. Here neither happens: each hook hands its failure
to the instrument.
"""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol
from uuid import UUID

if TYPE_CHECKING:
    from langchain_core.callbacks import AsyncCallbackHandler


class Hooks(Protocol):
    """What the handler needs of an instrument."""

    async def ready(self, *, before_call: bool = False) -> None:
        """Wait until there is room for more spans."""

    def failed(self, where: str, error: Exception) -> None:
        """A hook failed."""

    def run_started(self, run_id: UUID, parent_id: UUID | None, name: str, tags: Sequence[str]) -> None:
        """A runnable or a tool starts."""

    def run_ended(self, run_id: UUID, error: BaseException | None) -> None:
        """It ends."""

    def model_started(
        self, run_id: UUID, parent_id: UUID | None, messages: Sequence[Any], parameters: Mapping[str, Any]
    ) -> None:
        """A model call starts; messages are LangChain's or in canonical form."""

    def first_chunk(self, run_id: UUID) -> None:
        """A chunk of a streamed reply has come; called for each."""

    def model_ended(self, run_id: UUID, response: Any) -> None:
        """A model call has answered with an `LLMResult`."""

    def model_failed(self, run_id: UUID, error: BaseException) -> None:
        """A model call has failed."""


class _Waiting:
    """A hook as a coroutine function that also waits for room. It notices which thread asks for it."""

    def __init__(self, hook: Callable[..., None], first: bool) -> None:
        self._hook = hook
        self._first = first

    def __get__(self, handler: Any, owner: type) -> Callable[..., Coroutine[Any, Any, None]]:
        asking = threading.get_ident()

        async def guarded(*args: Any, **kwargs: Any) -> None:
            try:
                if asyncio.get_running_loop() is handler.loop:
                    await self._run(handler, args, kwargs)
                elif asking == handler.thread:
                    # A synchronous call within a coroutine: the event loop stands still until this is done.
                    self._hook(handler, *args, **kwargs)
                else:
                    there = asyncio.run_coroutine_threadsafe(self._run(handler, args, kwargs), handler.loop)
                    await asyncio.wrap_future(there)
            except Exception as error:
                handler.instrument.failed(self._hook.__name__, error)

        return guarded

    async def _run(self, handler: Any, args: Any, kwargs: Any) -> None:
        if self._first:
            await handler.instrument.ready(before_call=True)
        self._hook(handler, *args, **kwargs)
        if not self._first:
            await handler.instrument.ready()


def _waiting_first(hook: Callable[..., None]) -> Any:
    return _Waiting(hook, first=True)


def _waiting_afterwards(hook: Callable[..., None]) -> Any:
    return _Waiting(hook, first=False)


def _guarded(hook: Callable[..., None]) -> Any:
    # Any, since LangChain types each hook as a coroutine function and takes plain ones all the same.
    @functools.wraps(hook)
    def guarded(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            if threading.get_ident() == self.thread:
                hook(self, *args, **kwargs)
            else:
                asyncio.run_coroutine_threadsafe(_awaited(hook, self, args, kwargs), self.loop).result()
        except Exception as error:
            self.instrument.failed(hook.__name__, error)

    return guarded


async def _awaited(hook: Callable[..., None], handler: Any, args: Any, kwargs: Any) -> None:
    hook(handler, *args, **kwargs)


@lru_cache(maxsize=1)
def handler_class() -> Callable[[Hooks], AsyncCallbackHandler]:  # noqa: C901 - many hooks, no branches
    """The class of the handler; imports LangChain."""
    from langchain_core.callbacks import AsyncCallbackHandler

    class Handler(AsyncCallbackHandler):
        run_inline = True
        ignore_retriever = True
        ignore_retry = True
        ignore_custom_event = True

        def __init__(self, instrument: Hooks) -> None:
            super().__init__()
            self.instrument = instrument
            self.loop = asyncio.get_running_loop()
            self.thread = threading.get_ident()

        @_guarded
        def on_chain_start(
            self,
            serialized: Any,
            inputs: Any,
            *,
            run_id: UUID,
            parent_run_id: UUID | None = None,
            **more: Any,
        ) -> None:
            name = more.get("name") or "graph"
            self.instrument.run_started(run_id, parent_run_id, name, more.get("tags") or ())

        @_guarded
        def on_chain_end(self, outputs: Any, *, run_id: UUID, **more: Any) -> None:
            self.instrument.run_ended(run_id, None)

        @_guarded
        def on_chain_error(self, error: BaseException, *, run_id: UUID, **more: Any) -> None:
            self.instrument.run_ended(run_id, error)

        @_guarded
        def on_tool_start(
            self,
            serialized: Any,
            input_str: str,
            *,
            run_id: UUID,
            parent_run_id: UUID | None = None,
            **more: Any,
        ) -> None:
            self.instrument.run_started(run_id, parent_run_id, more.get("name") or "tool", ())

        @_guarded
        def on_tool_end(self, output: Any, *, run_id: UUID, **more: Any) -> None:
            self.instrument.run_ended(run_id, None)

        @_guarded
        def on_tool_error(self, error: BaseException, *, run_id: UUID, **more: Any) -> None:
            self.instrument.run_ended(run_id, error)

        @_waiting_first
        def on_chat_model_start(
            self,
            serialized: Any,
            messages: list[list[Any]],
            *,
            run_id: UUID,
            parent_run_id: UUID | None = None,
            **more: Any,
        ) -> None:
            parameters = more.get("invocation_params") or {}
            self.instrument.model_started(run_id, parent_run_id, messages[0], parameters)

        @_waiting_first
        def on_llm_start(
            self,
            serialized: Any,
            prompts: list[str],
            *,
            run_id: UUID,
            parent_run_id: UUID | None = None,
            **more: Any,
        ) -> None:
            messages = [{"role": "user", "parts": [{"type": "text", "content": prompts[0]}]}]
            parameters = more.get("invocation_params") or {}
            self.instrument.model_started(run_id, parent_run_id, messages, parameters)

        @_guarded
        def on_llm_new_token(self, token: Any, *, run_id: UUID, **more: Any) -> None:
            self.instrument.first_chunk(run_id)

        @_waiting_afterwards
        def on_llm_end(self, response: Any, *, run_id: UUID, **more: Any) -> None:
            self.instrument.model_ended(run_id, response)

        @_guarded
        def on_llm_error(self, error: BaseException, *, run_id: UUID, **more: Any) -> None:
            self.instrument.model_failed(run_id, error)

    return Handler

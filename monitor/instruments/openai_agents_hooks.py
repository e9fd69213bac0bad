"""The OpenAI Agents SDK's own hooks, kept thin: the processor of its traces, and the hooks of a run.

One processor stands for the whole process, in place of the SDK's own, which would send the traces
to OpenAI. Which instrument a span belongs to is said by a context variable that is set around a
run. The processor's hooks are synchronous; waiting for room is done in the hooks of the run.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from agents import RunHooks


class Listens(Protocol):
    """What the hooks need of an instrument."""

    async def ready(self, *, before_call: bool = False) -> None:
        """Wait until there is room for more spans."""

    def failed(self, where: str, error: Exception) -> None:
        """A hook failed."""

    def span_started(self, span: Any) -> None:
        """A span of the SDK starts."""

    def span_ended(self, span: Any) -> None:
        """It ends."""


_LISTENER: ContextVar[Listens | None] = ContextVar("atp_openai_agents_instrument", default=None)
_listeners: dict[str, Listens] = {}
"""SDK span id -> who heard of its start. It may end in another context."""


@contextmanager
def listening(listener: Listens) -> Iterator[None]:
    """Within it the SDK's spans are the listener's."""
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)


def forget(span_id: str) -> None:
    """Nobody listens any more to the end of this span."""
    _listeners.pop(span_id, None)


def keep_traces_here() -> None:
    """Take the place of all processors of the SDK's traces. Nothing leaves the process then."""
    from agents import set_trace_processors

    set_trace_processors([_processor()])


def run_hooks(listener: Listens) -> RunHooks[Any]:
    """Hooks for `Runner.run(hooks=...)` that wait for room around each model call."""
    hooks: RunHooks[Any] = _run_hooks_class()(listener)
    return hooks


@lru_cache(maxsize=1)
def _processor() -> Any:  # noqa: C901 - the SDK's interface, which is wide
    from agents import TracingProcessor

    class Processor(TracingProcessor):
        def on_span_start(self, span: Any) -> None:
            listener = _LISTENER.get()
            if listener is not None:
                _listeners[span.span_id] = listener
                try:
                    listener.span_started(span)
                except Exception as error:
                    listener.failed("on_span_start", error)

        def on_span_end(self, span: Any) -> None:
            listener = _listeners.pop(span.span_id, None)
            if listener is not None:
                try:
                    listener.span_ended(span)
                except Exception as error:
                    listener.failed("on_span_end", error)

        def on_trace_start(self, trace: Any) -> None:
            """A trace has nothing that its spans lack."""

        def on_trace_end(self, trace: Any) -> None:
            """See `on_trace_start`."""

        def shutdown(self) -> None:
            """Nothing is held back."""

        def force_flush(self) -> None:
            """Nothing is held back."""

    return Processor()


@lru_cache(maxsize=1)
def _run_hooks_class() -> Any:
    from agents import RunHooks

    class Hooks(RunHooks[Any]):
        def __init__(self, listener: Listens) -> None:
            self._listener = listener

        async def on_llm_start(self, context: Any, agent: Any, system_prompt: Any, input_items: Any) -> None:
            await self._listener.ready(before_call=True)

        async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
            await self._listener.ready()

    return Hooks

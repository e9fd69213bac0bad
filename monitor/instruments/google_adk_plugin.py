"""ADK's own hooks, kept thin: a plugin of its `Runner`, which agents called as tools inherit."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Protocol


class Listens(Protocol):
    """What the plugin needs of an instrument."""

    async def ready(self, *, before_call: bool = False) -> None:
        """Wait until there is room for more spans."""

    def failed(self, where: str, error: Exception) -> None:
        """A hook failed."""

    def agent_started(self, name: str) -> None:
        """An agent begins its part."""

    def agent_ended(self, name: str, error: Exception | None) -> None:
        """It has ended it."""

    def model_call(self, model: str | None) -> None:
        """A model is about to be asked, unless something keeps ADK from it."""

    def model_answered(self, response: Any) -> None:
        """A model has answered, or a part of its answer came."""

    def model_failed(self, error: Exception) -> None:
        """A model gave no answer."""


def plugin(listener: Listens) -> Any:
    """A plugin for `Runner(plugins=[...])`."""
    return _plugin_class()(listener)


@cache
def _plugin_class() -> Any:  # noqa: C901 - ADK's interface, which is wide
    from google.adk.plugins.base_plugin import BasePlugin

    class Plugin(BasePlugin):  # type: ignore[misc]  # ADK is not where types are checked
        """Each hook gives None: that lets ADK go on as without it."""

        def __init__(self, listener: Listens) -> None:
            super().__init__(name="atp_monitor")
            self._listener = listener

        def _tell(self, where: str, function: Callable[[], None]) -> None:
            # What a hook raises would end the run.
            try:
                function()
            except Exception as error:
                self._listener.failed(where, error)

        async def before_agent_callback(self, *, agent: Any, callback_context: Any) -> None:
            self._tell("before_agent", lambda: self._listener.agent_started(agent.name))

        async def after_agent_callback(self, *, agent: Any, callback_context: Any) -> None:
            self._tell("after_agent", lambda: self._listener.agent_ended(agent.name, None))

        async def on_agent_error_callback(
            self, *, agent: Any, callback_context: Any, error: Exception
        ) -> None:
            self._tell("on_agent_error", lambda: self._listener.agent_ended(agent.name, error))

        async def before_model_callback(self, *, callback_context: Any, llm_request: Any) -> None:
            await self._listener.ready(before_call=True)
            self._tell("before_model", lambda: self._listener.model_call(llm_request.model))

        async def after_model_callback(self, *, callback_context: Any, llm_response: Any) -> None:
            self._tell("after_model", lambda: self._listener.model_answered(llm_response))
            if not llm_response.partial:
                await self._listener.ready()

        async def on_model_error_callback(
            self, *, callback_context: Any, llm_request: Any, error: Exception
        ) -> None:
            self._tell("on_model_error", lambda: self._listener.model_failed(error))

    return Plugin

"""Sampling that was asked for, for all agents of somebody's own: ADK has a place at each agent only."""

from __future__ import annotations

from functools import cache
from typing import Any

from atp.protocol.model import Sampling


def sampling_plugin(sampling: Sampling) -> Any:
    """A plugin for `Runner(plugins=[...])` that puts the sampling into each request."""
    return _plugin_class()(sampling)


@cache
def _plugin_class() -> Any:
    from google.adk.plugins.base_plugin import BasePlugin

    class Plugin(BasePlugin):  # type: ignore[misc]  # ADK is not where types are checked
        def __init__(self, sampling: Sampling) -> None:
            super().__init__(name="atp_sampling")
            self._sampling = sampling

        async def before_model_callback(self, *, callback_context: Any, llm_request: Any) -> None:
            if self._sampling.temperature is not None:
                llm_request.config.temperature = self._sampling.temperature
            if self._sampling.max_output_tokens is not None:
                llm_request.config.max_output_tokens = self._sampling.max_output_tokens

    return Plugin

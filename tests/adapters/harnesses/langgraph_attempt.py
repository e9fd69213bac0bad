"""One attempt of LangGraph against an endpoint, as a worker would run it."""

from __future__ import annotations

from typing import TypeAlias

from adapters.harnesses.langgraph import LangGraphRunner
from monitor.instruments.langgraph import LangGraphInstrument
from tests.adapters.harnesses import harness_attempt
from tests.adapters.harnesses.harness_attempt import WEATHER, Harness

__all__ = ["WEATHER", "Attempt", "attempt"]

Attempt: TypeAlias = harness_attempt.Attempt[LangGraphInstrument]

attempt = Harness("langgraph", LangGraphRunner, LangGraphInstrument).attempt

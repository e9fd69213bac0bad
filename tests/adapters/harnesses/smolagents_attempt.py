"""One attempt of smolagents against an endpoint, as a worker would run it."""

from __future__ import annotations

import json
from typing import Any, TypeAlias

from adapters.harnesses.smolagents import SmolagentsRunner
from monitor.instruments.smolagents import SmolagentsInstrument
from tests.adapters.harnesses import harness_attempt
from tests.adapters.harnesses.harness_attempt import WEATHER, Harness
from tests.foreign_endpoint import ForeignReply, completion, replying

__all__ = ["ANSWERS", "ASKS", "USAGE", "WEATHER", "Attempt", "answering", "attempt", "calling"]

USAGE = {
    "prompt_tokens": 120,
    "completion_tokens": 40,
    "total_tokens": 160,
    "prompt_tokens_details": {"cached_tokens": 30},
    "completion_tokens_details": {"reasoning_tokens": 5},
}


def calling(response_id: str, *calls: tuple[str, str, str], **more: Any) -> ForeignReply:
    """A reply that asks for tool calls: (id, name, arguments as JSON text)."""
    return replying(completion(response_id, tool_calls=calls, **{"usage": USAGE, **more}))


def answering(response_id: str, answer: str, **more: Any) -> ForeignReply:
    """A reply that gives the answer, as smolagents wants it."""
    call = (f"call_{response_id}", "final_answer", json.dumps({"answer": answer}))
    return calling(response_id, call, **more)


ASKS = calling("resp-1", ("call_1", "weather", '{"city": "Paris"}'))
ANSWERS = answering("resp-2", "Sunny.")

Attempt: TypeAlias = harness_attempt.Attempt[SmolagentsInstrument]

attempt = Harness("smolagents", SmolagentsRunner, SmolagentsInstrument).attempt

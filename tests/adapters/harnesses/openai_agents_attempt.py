"""One attempt of the OpenAI Agents SDK against an endpoint, as a worker would run it, in either dialect."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import pytest

from adapters.harnesses.openai_agents import OpenAIAgentsRunner
from atp.protocol.model import Dialect
from monitor.instruments.openai_agents import OpenAIAgentsInstrument
from tests.adapters.harnesses import harness_attempt
from tests.adapters.harnesses.harness_attempt import WEATHER, Harness
from tests.foreign_endpoint import ForeignReply, completion, replying
from tests.foreign_responses import replying_response, response

__all__ = [
    "ALL",
    "BOTH",
    "CHAT",
    "CHAT_STREAM",
    "RESPONSES",
    "RESPONSES_STREAM",
    "WEATHER",
    "Api",
    "Attempt",
    "attempt",
]


@dataclass(frozen=True)
class Api:
    """One of the two APIs, and whether it is asked for streams."""

    dialect: Dialect
    stream: bool

    @property
    def options(self) -> dict[str, Any]:
        """For an attempt."""
        return {"stream": self.stream}

    def reply(
        self, response_id: str, usage: tuple[int, int, int, int] | None = None, **said: Any
    ) -> ForeignReply:
        """An answer of the endpoint.

        Args:
            response_id: The id of the reply.
            usage: Input, of which cached, output, of which reasoning.
            said: See `completion` and `response`.
        """
        if self.dialect is Dialect.OPENAI_CHAT:
            return replying(completion(response_id, usage=_chat_usage(usage), **said))
        return replying_response(response(response_id, usage=_response_usage(usage), **said))

    def asked(self, body: Any) -> list[Any]:
        """The messages or items of a request."""
        return list(body["messages" if self.dialect is Dialect.OPENAI_CHAT else "input"])


CHAT, CHAT_STREAM = Api(Dialect.OPENAI_CHAT, False), Api(Dialect.OPENAI_CHAT, True)
RESPONSES, RESPONSES_STREAM = Api(Dialect.OPENAI_RESPONSES, False), Api(Dialect.OPENAI_RESPONSES, True)
ALL = pytest.mark.parametrize(
    "api",
    [CHAT, CHAT_STREAM, RESPONSES, RESPONSES_STREAM],
    ids=["chat", "chat-stream", "responses", "responses-stream"],
)
BOTH = pytest.mark.parametrize("api", [CHAT, RESPONSES], ids=["chat", "responses"])


Attempt: TypeAlias = harness_attempt.Attempt[OpenAIAgentsInstrument]

_HARNESS = Harness("openai-agents", OpenAIAgentsRunner, OpenAIAgentsInstrument)


def attempt(
    base_url: str, api: Api = CHAT, *, options: Mapping[str, Any] | None = None, **more: Any
) -> Attempt:
    """Prepare an attempt that speaks one of the APIs; see `Harness.attempt`."""
    return _HARNESS.attempt(
        base_url, dialect=api.dialect, options=api.options if options is None else options, **more
    )


def _chat_usage(usage: tuple[int, int, int, int] | None) -> dict[str, Any] | None:
    if usage is None:
        return None
    asked, cached, said, reasoning = usage
    return {
        "prompt_tokens": asked,
        "completion_tokens": said,
        "total_tokens": asked + said,
        "prompt_tokens_details": {"cached_tokens": cached},
        "completion_tokens_details": {"reasoning_tokens": reasoning},
    }


def _response_usage(usage: tuple[int, int, int, int] | None) -> dict[str, Any] | None:
    if usage is None:
        return None
    asked, cached, said, reasoning = usage
    return {
        "input_tokens": asked,
        "input_tokens_details": {"cached_tokens": cached},
        "output_tokens": said,
        "output_tokens_details": {"reasoning_tokens": reasoning},
        "total_tokens": asked + said,
    }

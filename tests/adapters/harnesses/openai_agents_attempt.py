"""One attempt of the OpenAI Agents SDK against an endpoint, as a worker would run it, in either dialect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import SecretStr

from adapters.harnesses.openai_agents import OpenAIAgentsRunner
from atp.protocol.binding import AgentBinding
from atp.protocol.environment import ToolSpec
from atp.protocol.model import Dialect, Limits, ModelEndpoint, Sampling
from atp.protocol.runner import RunContext
from atp.protocol.task import AgentTask
from atp.protocol.trace import TaskTrace
from monitor.instruments.openai_agents import OpenAIAgentsInstrument
from monitor.recorder import SpanRecorder
from tests.foreign_endpoint import ForeignReply, completion, replying
from tests.foreign_responses import replying_response, response
from tests.monitor.memory_sink import FunctionsPort, MemorySink, Tool

WEATHER = ToolSpec(
    name="weather",
    description="The weather of a city.",
    parameters={"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)


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


@dataclass(slots=True)
class Attempt:
    """An attempt and everything around it."""

    sink: MemorySink
    recorder: SpanRecorder
    instrument: OpenAIAgentsInstrument
    port: FunctionsPort
    binding: AgentBinding
    context: RunContext

    async def run(self, text: str = "How is the weather?") -> TaskTrace:
        """Run a task to its end, whatever that is; spans are complete afterwards."""
        error: BaseException | None = None
        try:
            with self.recorder.as_current(self.recorder.root.span_id):
                task = AgentTask.model_validate({"task_id": "t", "instruction": text})
                return await OpenAIAgentsRunner().run(task, self.binding, self.context)
        except BaseException as raised:
            error = raised
            raise
        finally:
            self.instrument.close()
            self.recorder.close(error)


def attempt(
    base_url: str,
    api: Api = CHAT,
    *,
    run_id: str = "run-a",
    functions: Mapping[str, Tool] | None = None,
    tools: Sequence[ToolSpec] = (WEATHER,),
    system_prompt: str | None = None,
    limits: Limits | None = None,
    sampling: Sampling | None = None,
    options: Mapping[str, Any] | None = None,
    tool_errors: Any = "return",
    has_user: bool = False,
    monitored: bool = True,
) -> Attempt:
    """Prepare an attempt."""
    sink = MemorySink()
    recorder = SpanRecorder(sink, run_id, name="openai-agents")
    instrument = OpenAIAgentsInstrument(recorder)
    port = FunctionsPort(functions or {"weather": lambda arguments: "sunny"}, recorder)
    binding = AgentBinding(
        port, system_prompt=system_prompt, tools=tools, tool_errors=tool_errors, has_user=has_user
    )
    context = RunContext(
        run_id=run_id,
        model=ModelEndpoint(
            dialect=api.dialect,
            base_url=base_url,
            model="asked-model",
            api_key=SecretStr("key-a"),
            provider="foreign",
        ),
        sampling=sampling or Sampling(),
        limits=limits or Limits(),
        recorder=recorder,
        instrument=instrument if monitored else None,
        options=api.options if options is None else options,
    )
    return Attempt(sink, recorder, instrument, port, binding, context)


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

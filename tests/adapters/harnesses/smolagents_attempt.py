"""One attempt of smolagents against an endpoint, as a worker would run it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import SecretStr

from adapters.harnesses.smolagents import SmolagentsRunner
from atp.protocol.binding import AgentBinding
from atp.protocol.environment import ToolSpec
from atp.protocol.model import Dialect, Limits, ModelEndpoint, Sampling
from atp.protocol.runner import RunContext
from atp.protocol.task import AgentTask
from atp.protocol.trace import TaskTrace
from monitor.instruments.smolagents import SmolagentsInstrument
from monitor.recorder import SpanRecorder
from tests.foreign_endpoint import ForeignReply, completion, replying
from tests.monitor.memory_sink import FunctionsPort, MemorySink, Tool

WEATHER = ToolSpec(
    name="weather",
    description="The weather of a city.",
    parameters={"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)
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


@dataclass(slots=True)
class Attempt:
    """An attempt and everything around it."""

    sink: MemorySink
    recorder: SpanRecorder
    instrument: SmolagentsInstrument
    port: FunctionsPort
    binding: AgentBinding
    context: RunContext

    async def run(self, text: str = "How is the weather?") -> TaskTrace:
        """Run a task to its end, whatever that is; spans are complete afterwards."""
        error: BaseException | None = None
        try:
            with self.recorder.as_current(self.recorder.root.span_id):
                task = AgentTask.model_validate({"task_id": "t", "instruction": text})
                return await SmolagentsRunner().run(task, self.binding, self.context)
        except BaseException as raised:
            error = raised
            raise
        finally:
            self.instrument.close()
            self.recorder.close(error)


def attempt(
    base_url: str,
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
    """Prepare an attempt; within a running event loop."""
    sink = MemorySink()
    recorder = SpanRecorder(sink, run_id, name="smolagents")
    instrument = SmolagentsInstrument(recorder)
    port = FunctionsPort(functions or {"weather": lambda arguments: "sunny"}, recorder)
    binding = AgentBinding(
        port, system_prompt=system_prompt, tools=tools, tool_errors=tool_errors, has_user=has_user
    )
    context = RunContext(
        run_id=run_id,
        model=ModelEndpoint(
            dialect=Dialect.OPENAI_CHAT,
            base_url=base_url,
            model="asked-model",
            api_key=SecretStr("key-a"),
            provider="foreign",
        ),
        sampling=sampling or Sampling(),
        limits=limits or Limits(),
        recorder=recorder,
        instrument=instrument if monitored else None,
        options=options or {},
    )
    return Attempt(sink, recorder, instrument, port, binding, context)

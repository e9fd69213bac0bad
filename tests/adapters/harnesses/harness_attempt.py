"""One attempt of a harness against an endpoint, as a worker would run it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pydantic import SecretStr

from atp.protocol.binding import AgentBinding
from atp.protocol.environment import ToolSpec
from atp.protocol.model import Dialect, Limits, ModelEndpoint, Sampling
from atp.protocol.runner import AgentRunner, RunContext
from atp.protocol.spans import Instrument, Recorder
from atp.protocol.task import AgentTask
from atp.protocol.trace import TaskTrace
from monitor.recorder import SpanRecorder
from tests.monitor.memory_sink import FunctionsPort, MemorySink, Tool

WEATHER = ToolSpec(
    name="weather",
    description="The weather of a city.",
    parameters={"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)

InstrumentT = TypeVar("InstrumentT", bound=Instrument)


@dataclass(slots=True)
class Attempt(Generic[InstrumentT]):
    """An attempt and everything around it."""

    base_url: str
    runner: AgentRunner
    sink: MemorySink
    recorder: SpanRecorder
    instrument: InstrumentT
    port: FunctionsPort
    binding: AgentBinding
    context: RunContext

    async def run(self, text: str = "How is the weather?") -> TaskTrace:
        """Run a task to its end, whatever that is; spans are complete afterwards."""
        error: BaseException | None = None
        try:
            with self.recorder.as_current(self.recorder.root.span_id):
                task = AgentTask.model_validate({"task_id": "t", "instruction": text})
                return await self.runner.run(task, self.binding, self.context)
        except BaseException as raised:
            error = raised
            raise
        finally:
            self.instrument.close()
            self.recorder.close(error)


@dataclass(frozen=True)
class Harness(Generic[InstrumentT]):
    """What makes attempts of one harness."""

    name: str
    runner: Callable[[], AgentRunner]
    instrument: Callable[[Recorder], InstrumentT]

    def attempt(
        self,
        base_url: str,
        *,
        dialect: Dialect = Dialect.OPENAI_CHAT,
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
    ) -> Attempt[InstrumentT]:
        """Prepare an attempt; within a running event loop."""
        sink = MemorySink()
        recorder = SpanRecorder(sink, run_id, name=self.name)
        instrument = self.instrument(recorder)
        port = FunctionsPort(functions or {"weather": lambda arguments: "sunny"}, recorder)
        binding = AgentBinding(
            port, system_prompt=system_prompt, tools=tools, tool_errors=tool_errors, has_user=has_user
        )
        context = RunContext(
            run_id=run_id,
            model=ModelEndpoint(
                dialect=dialect,
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
        return Attempt(base_url, self.runner(), sink, recorder, instrument, port, binding, context)

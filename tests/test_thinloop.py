"""The test harness: the smallest loop that calls tools, watched by its own instrument."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from ledger.benchmark import LedgerBenchmark
from ledger.tools import TOOLS
from pydantic import JsonValue, SecretStr
from thinloop.chat_client import ChatHttpError
from thinloop.instrument import ThinLoopInstrument
from thinloop.runner import ThinLoopRunner

from atp.protocol.binding import AgentBinding, ToolResult
from atp.protocol.environment import Environment, UserTurn
from atp.protocol.errors import ToolFailed
from atp.protocol.model import Dialect, Limits, ModelEndpoint, Sampling
from atp.protocol.runner import RunContext
from atp.protocol.spans import ParentSource, SpanHandle, SpanKind, SpanStatus
from atp.protocol.status import StopReason
from atp.protocol.task import AgentTask
from atp.protocol.trace import TaskTrace
from monitor import vocabulary
from monitor.recorder import SpanRecorder
from tests.foreign_endpoint import ForeignEndpoint, ForeignReply, completion, replying
from tests.monitor.memory_sink import MemorySink

USAGE = {
    "prompt_tokens": 11,
    "completion_tokens": 7,
    "prompt_tokens_details": {"cached_tokens": 3},
    "completion_tokens_details": {"reasoning_tokens": 2},
}


class EnvironmentPort:
    """A binding's other side: a real environment, without an engine between."""

    def __init__(self, environment: Environment, recorder: SpanRecorder) -> None:
        self.environment = environment
        self.recorder = recorder
        self.calls: list[tuple[str, JsonValue, str | None, ParentSource]] = []

    async def call(
        self, name: str, arguments: JsonValue, call_id: str | None, parent: SpanHandle | None
    ) -> ToolResult:
        """See `BindingPort`."""
        self.calls.append((name, arguments, call_id, self.recorder.tool_parent(call_id, parent)[1]))
        if not isinstance(arguments, dict):
            return ToolResult(error=f"invalid arguments for {name}: not a JSON object")
        try:
            return ToolResult(value=await self.environment.execute(name, arguments))
        except ToolFailed as error:
            return ToolResult(error=error.message)

    async def user_open(self) -> UserTurn:
        """See `BindingPort`."""
        assert self.environment.user is not None
        return await self.environment.user.open()

    async def user_reply(self, text: str) -> UserTurn:
        """See `BindingPort`."""
        assert self.environment.user is not None
        return await self.environment.user.reply(text)


class Run:
    """One attempt of the thin loop at a task of the ledger, against the foreign endpoint."""

    def __init__(self, endpoint: ForeignEndpoint, index: int = 0) -> None:
        benchmark = LedgerBenchmark()
        self.endpoint = endpoint
        self.task = benchmark.load(None)[index]
        self.sink = MemorySink()
        self.recorder = SpanRecorder(self.sink, "run-thin")
        self.port = EnvironmentPort(benchmark.environment(self.task), self.recorder)

    async def __call__(
        self, options: Mapping[str, Any] | None = None, limits: Limits | None = None
    ) -> TaskTrace:
        binding = AgentBinding(
            self.port,
            system_prompt=self.port.environment.system_prompt,
            tools=TOOLS,
            has_user=self.port.environment.user is not None,
        )
        context = RunContext(
            run_id="run-thin",
            model=ModelEndpoint(
                dialect=Dialect.OPENAI_CHAT,
                base_url=self.endpoint.base_url,
                model="m",
                api_key=SecretStr("key-of-the-test"),
                provider="openai",
            ),
            sampling=Sampling(),
            limits=limits or Limits(),
            recorder=self.recorder,
            instrument=ThinLoopInstrument(self.recorder),
            options=options or {},
        )
        task: AgentTask = self.task.for_agent()
        try:
            return await ThinLoopRunner().run(task, binding, context)
        finally:
            self.recorder.close()


def _balance(call_id: str = "call-1") -> tuple[str, str, str]:
    return (call_id, "balance", '{"account": "acc-1"}')


async def test_it_calls_the_tool_and_gives_the_answer(foreign_endpoint: ForeignEndpoint) -> None:
    foreign_endpoint.replies = [
        replying(completion("r1", tool_calls=[_balance()], usage=USAGE)),
        replying(completion("r2", text="Done.", usage=USAGE)),
    ]
    run = Run(foreign_endpoint)
    trace = await run()
    assert trace.final_answer == "Done."
    assert trace.stop_reason is StopReason.ANSWERED
    assert trace.response_ids == ("r1", "r2")
    assert trace.harness_usage is not None
    assert trace.harness_usage.model_dump() == {
        "input_tokens": 22,
        "output_tokens": 14,
        "cache_read_tokens": 6,
        "cache_write_tokens": None,
        "reasoning_tokens": 4,
    }
    assert run.port.calls == [("balance", {"account": "acc-1"}, "call-1", ParentSource.CALL_ID)]


async def test_schemas_system_prompt_and_key_go_over_the_wire_verbatim(
    foreign_endpoint: ForeignEndpoint,
) -> None:
    foreign_endpoint.replies = [replying(completion(text="Done."))]
    run = Run(foreign_endpoint)
    await run()
    [request] = foreign_endpoint.requests
    sent = {tool["function"]["name"]: tool["function"]["parameters"] for tool in request.body["tools"]}
    assert sent == {tool.name: tool.parameters for tool in TOOLS}
    assert request.body["messages"][0] == {"role": "system", "content": run.port.environment.system_prompt}
    assert request.headers["authorization"] == "Bearer key-of-the-test"


async def test_each_model_call_is_a_span_with_what_it_said(foreign_endpoint: ForeignEndpoint) -> None:
    foreign_endpoint.replies = [
        replying(completion("r1", tool_calls=[_balance("a"), _balance("b")], reasoning="Look.", usage=USAGE)),
        replying(completion("r2", text="Done.")),
    ]
    run = Run(foreign_endpoint)
    await run()
    first, second = run.sink.of_kind(SpanKind.MODEL)
    assert first.attributes[vocabulary.RESPONSE_ID] == "r1"
    assert first.attributes[vocabulary.ANNOUNCED_CALL_IDS] == ["a", "b"]
    assert first.attributes[vocabulary.USAGE_REASONING] == 2
    assert vocabulary.USAGE_INPUT not in second.attributes
    [message] = run.sink.messages(first.bodies[vocabulary.OUTPUT_MESSAGES])
    assert [part["type"] for part in message["parts"]] == ["reasoning", "tool_call", "tool_call"]


async def test_a_dialogue_goes_on_in_one_conversation(foreign_endpoint: ForeignEndpoint) -> None:
    foreign_endpoint.replies = [
        replying(completion("r1", text="One.")),
        replying(completion("r2", text="Two.")),
    ]
    run = Run(foreign_endpoint, index=1)
    trace = await run()
    assert trace.replies == ("One.", "Two.")
    assert trace.stop_reason is StopReason.USER_STOP
    roles = [message["role"] for message in foreign_endpoint.requests[1].body["messages"]]
    assert roles == ["system", "user", "assistant", "user"]


async def test_arguments_that_are_no_json_go_to_the_binding_as_they_are(
    foreign_endpoint: ForeignEndpoint,
) -> None:
    foreign_endpoint.replies = [
        replying(completion("r1", tool_calls=[("call-1", "balance", '{"account": "acc')])),
        replying(completion("r2", text="Done.")),
    ]
    run = Run(foreign_endpoint)
    await run()
    [(name, arguments, call_id, _)] = run.port.calls
    assert (name, arguments, call_id) == ("balance", '{"account": "acc', "call-1")
    assert "not a JSON object" in foreign_endpoint.requests[1].body["messages"][-1]["content"]


async def test_the_turn_limit_stops_before_the_next_call(foreign_endpoint: ForeignEndpoint) -> None:
    foreign_endpoint.respond = lambda request, number: replying(
        completion(f"r{number}", tool_calls=[_balance()])
    )
    trace = await Run(foreign_endpoint)(limits=Limits(max_turns=3))
    assert trace.stop_reason is StopReason.MAX_TURNS
    assert trace.final_answer is None
    assert len(foreign_endpoint.requests) == 3


async def test_an_error_of_the_endpoint_ends_the_span_and_passes_through(
    foreign_endpoint: ForeignEndpoint,
) -> None:
    foreign_endpoint.replies = [ForeignReply(status=429, body={"error": {"code": "insufficient_quota"}})]
    run = Run(foreign_endpoint)
    with pytest.raises(ChatHttpError) as raised:
        await run()
    assert (raised.value.status_code, raised.value.code) == (429, "insufficient_quota")
    [span] = run.sink.of_kind(SpanKind.MODEL)
    assert span.status is SpanStatus.ERROR


async def test_a_cut_connection_is_a_connection_error(foreign_endpoint: ForeignEndpoint) -> None:
    foreign_endpoint.replies = [ForeignReply(drop_after=0)]
    with pytest.raises(ConnectionError):
        await Run(foreign_endpoint)()


async def test_a_silent_endpoint_is_left_after_the_models_timeout(foreign_endpoint: ForeignEndpoint) -> None:
    foreign_endpoint.replies = [ForeignReply(hang=True)]
    with pytest.raises(TimeoutError):
        await Run(foreign_endpoint)(limits=Limits(model_timeout=0.05))


async def test_it_answers_as_long_as_asked(foreign_endpoint: ForeignEndpoint) -> None:
    foreign_endpoint.replies = [replying(completion(text="short"))]
    trace = await Run(foreign_endpoint)({"answer_characters": "10000000"})
    assert trace.final_answer is not None
    assert len(trace.final_answer) == 10_000_000


@pytest.mark.parametrize(
    ("options", "raised"), [({"sys_exit": "0"}, SystemExit), ({"error": "as asked"}, RuntimeError)]
)
async def test_it_raises_what_it_is_asked_to(
    foreign_endpoint: ForeignEndpoint, options: Mapping[str, Any], raised: type[BaseException]
) -> None:
    with pytest.raises(raised):
        await Run(foreign_endpoint)(options)


async def test_it_leaves_an_orphan_that_ignores_sigterm(
    foreign_endpoint: ForeignEndpoint, tmp_path: Path
) -> None:
    foreign_endpoint.replies = [replying(completion(text="Done."))]
    pid_file = tmp_path / "pid"
    await Run(foreign_endpoint)({"orphan": str(pid_file)})
    pid = int(pid_file.read_text(encoding="utf-8"))
    try:
        assert os.getsid(pid) == pid
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)

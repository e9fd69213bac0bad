"""CrewAI's events as spans; with events as plain objects, since the SDK is not here. What it really sends,
and what goes over its HTTP client, `tests/adapters/harnesses/test_crewai_experiments.py` sees."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

from atp.protocol.spans import SpanKind, SpanStatus
from monitor import vocabulary as v
from monitor.instruments.crewai import CrewAIInstrument
from monitor.instruments.openai_http import MODEL_CALL, CopiedResponse
from monitor.recorder import SpanRecorder
from tests.foreign_endpoint import completion
from tests.monitor.memory_sink import MemorySink

TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": {}}} for name in ("weather", "delegate")
]
REQUEST = json.dumps({"model": "m", "messages": [{"role": "user", "content": "Hi"}], "tools": TOOLS}).encode()


def event(kind: str, **about: Any) -> SimpleNamespace:
    return SimpleNamespace(type=kind, **about)


def agent(kind: str, role: str, **about: Any) -> SimpleNamespace:
    return event(f"agent_execution_{kind}", agent=SimpleNamespace(role=role), **about)


class Watched:
    """An instrument whose agent runs in a thread, as CrewAI's does."""

    def __init__(self) -> None:
        self.sink = MemorySink()
        self.recorder = SpanRecorder(self.sink, "run-a", name="crewai")
        self.instrument = CrewAIInstrument(self.recorder)
        self.own = object()
        self.instrument.watch(self.own, frozenset({"weather"}))

    async def hear(self, *steps: Any) -> None:
        """In one thread and context: events are heard, functions are called."""

        def work() -> None:
            for step in steps:
                if callable(step):
                    step()
                else:
                    self.instrument.heard(self.own, step)

        await asyncio.to_thread(work)
        self.recorder.close()


def asks() -> None:
    call = MODEL_CALL.get()
    assert call is not None
    call.requested(REQUEST)


def answers(*calls: tuple[str, str, str]) -> Any:
    def answer() -> None:
        call = MODEL_CALL.get()
        assert call is not None
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        body = completion("r1", tool_calls=calls, usage=usage)
        copied = CopiedResponse("application/json", None, None, library=None)
        copied.chunks.append(json.dumps(body).encode())
        call.answered(copied)

    return answer


async def test_a_call_that_is_said_to_fail_twice_is_one_span() -> None:
    watched = Watched()
    started, failed = (
        event("llm_call_started", call_id="a"),
        event("llm_call_failed", call_id="a", error="no"),
    )
    await watched.hear(started, asks, failed, failed)
    [model] = [span for span in watched.sink.ends if span.start.kind is SpanKind.MODEL]
    assert (model.status, model.error_message) == (SpanStatus.ERROR, "no")
    assert watched.recorder.failures == 0


async def test_calls_and_agents_are_below_the_agent_at_work() -> None:
    watched = Watched()
    call = (event("llm_call_started", call_id="a"), asks, answers(), event("llm_call_completed", call_id="a"))
    await watched.hear(
        *call,
        agent("started", " manager\n"),
        agent("started", "clerk"),
        *call,
        agent("completed", "clerk"),
        *call,
        agent("error", "manager", error="no"),
        *call,
    )
    starts = {start.span_id: start for start in watched.sink.starts}
    parents = [
        starts[start.parent_id].name
        for start in watched.sink.starts
        if start.kind is SpanKind.MODEL and start.parent_id
    ]
    assert parents == ["crewai", "clerk", "manager", "crewai"]
    ends = {end.start.name: end for end in watched.sink.ends if end.start.kind is SpanKind.AGENT}
    assert (ends["clerk"].status, ends["manager"].status) == (SpanStatus.OK, SpanStatus.ERROR)
    assert ends["clerk"].start.parent_id == ends["manager"].start.span_id


async def test_the_kickoff_of_ones_own_agent_has_no_span_beside_the_root() -> None:
    watched = Watched()
    await watched.hear(
        event("lite_agent_execution_started", agent_info={"role": "Agent"}),
        event("lite_agent_execution_completed", agent_info={"role": "Agent"}),
    )
    assert [start.name for start in watched.sink.starts] == ["crewai"]


async def test_calls_that_crewai_answers_itself_are_said_to_be_rejected() -> None:
    watched = Watched()
    await watched.hear(
        event("llm_call_started", call_id="a"),
        asks,
        answers(
            ("made", "weather", '{"city": "Paris"}'),
            ("made-of-nothing", "weather", "null"),
            ("no-json", "weather", '{"city": '),
            ("no-object", "weather", "[1]"),
            ("not-offered", "forecast", "{}"),
            ("delegated", "delegate", "{}"),
        ),
        event("llm_call_completed", call_id="a"),
    )
    [model] = [span for span in watched.sink.ends if span.start.kind is SpanKind.MODEL]
    assert model.attributes[v.REJECTED_CALL_IDS] == ["no-json", "no-object", "not-offered", "delegated"]


async def test_an_event_that_cannot_be_read_is_counted_and_harms_nobody() -> None:
    watched = Watched()
    await watched.hear(event("agent_execution_completed"))
    assert watched.recorder.failures == 1

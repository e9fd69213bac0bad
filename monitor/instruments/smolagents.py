"""The instrument for smolagents: a model that is watched while it generates, turned into spans.

smolagents' own hooks, step callbacks and the memory, tell of a step when it and its tools are over,
and of the forced last call at a limit they show no message. What serves is its documented way to
bring a model: a subclass of `OpenAIModel` that does what its base does and notes when. What was
asked and answered comes from the HTTP client (`monitor.instruments.openai_http`): there alone are
the response id of the forced call, cached and reasoning tokens, reasoning text, and the messages as
smolagents merges them.

Managed agents are watched by an instance attribute `run`, since nothing else tells when one begins.

The agent runs in threads, and recording belongs to the event loop: hooks wait for it, which is also
how a full queue of spans slows the agent down.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial, wraps
from typing import Any

from atp.protocol.spans import Actor, AttributeValue, Recorder, SpanHandle, SpanKind
from monitor import vocabulary as v
from monitor.instruments.openai_http import MODEL_CALL, CopiedResponse
from monitor.instruments.openai_replies import ChatReply, read_reply
from monitor.instruments.openai_requests import RequestForms
from monitor.instruments.watched_call import copied_reply, failed_try


class SmolagentsInstrument:
    """Watches one attempt (implements `atp.protocol.spans.Instrument`). Made within the event loop.

    Args:
        recorder: Of the attempt.
    """

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._loop = asyncio.get_running_loop()
        self._requests = RequestForms()
        self._closed = False

    @property
    def watched_model(self) -> Callable[..., Any]:
        """Makes an `OpenAIModel` that is watched, with the same arguments."""
        return partial(_watched_model_class(), self)

    def watch_managed(self, agent: Any) -> None:
        """Have an agent span for each run of the agents that this one manages, and of those below.

        Args:
            agent: A `MultiStepAgent` that lives for this attempt only.
        """
        for managed in agent.managed_agents.values():
            if "run" not in vars(managed):  # two may manage the same
                managed.run = self._watched_run(managed)
                self.watch_managed(managed)

    def _watched_run(self, agent: Any) -> Callable[..., Any]:
        run = agent.run

        @wraps(run)
        def watched(*args: Any, **asked: Any) -> Any:
            spans: list[SpanHandle] = []
            self.record("managed agent", lambda: self._agent_started(agent.name, spans))
            if not spans:
                return run(*args, **asked)
            error: BaseException | None = None
            try:
                with self.recorder.as_current(spans[0].span_id):
                    return run(*args, **asked)
            except BaseException as raised:
                error = raised
                raise
            finally:
                # Not an Exception: the attempt is being stopped.
                if error is None or isinstance(error, Exception):
                    self.record("managed agent", lambda: self._agent_ended(spans[0], error))

        return watched

    async def _agent_started(self, name: str, spans: list[SpanHandle]) -> None:
        await self.recorder.ready()
        attributes: dict[str, AttributeValue] = {v.AGENT_NAME: name, v.ACTOR: Actor.AGENT.value}
        spans.append(self.recorder.start(SpanKind.AGENT, name, attributes=attributes))

    async def _agent_ended(self, span: SpanHandle, error: BaseException | None) -> None:
        span.end(error)

    def close(self) -> None:
        """Record nothing more; the recorder, which knows what ended the attempt, ends what is open."""
        self._closed = True

    # For the watched model, in threads of the agent.

    @contextmanager
    def model_call(self, tools: Sequence[Any] | None) -> Iterator[None]:
        """A model call from its beginning to its end.

        Args:
            tools: The smolagents tools that the model may call.
        """
        call = ModelCall(self, {tool.name: tool for tool in tools or ()})
        MODEL_CALL.set(call)
        error: BaseException | None = None
        try:
            yield
        except BaseException as raised:
            error = raised
            raise
        finally:
            MODEL_CALL.set(None)
            # Not an Exception: the attempt is being stopped.
            if error is None or isinstance(error, Exception):
                self.record("model call", lambda: self._ended(call, error))

    def record(self, where: str, function: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a coroutine in the event loop and wait for it. Raises nothing."""
        try:
            asyncio.run_coroutine_threadsafe(self._unless_closed(function), self._loop).result()
        except Exception as error:
            self.recorder.failed(where, error)

    async def _unless_closed(self, function: Callable[[], Coroutine[Any, Any, None]]) -> None:
        if not self._closed:
            await function()

    async def started(self, call: ModelCall, body: bytes) -> None:
        """The first request of a model call is about to go out."""
        await self.recorder.ready(before_call=True)
        request = self._requests.read(body)
        asked = request.model or "unknown"
        attributes: dict[str, AttributeValue] = {
            v.MODEL_NAME: asked,
            v.ACTOR: Actor.AGENT.value,
            v.MODEL_STREAM: request.stream,
        }
        call.started, call.streams = time.perf_counter_ns(), request.stream
        span = call.span = self.recorder.start(SpanKind.MODEL, asked, attributes=attributes)
        span.set_messages(v.INPUT_MESSAGES, request.messages)
        span.set_body(v.MODEL_PARAMETERS, request.parameters)
        if request.tools:
            span.set_messages(v.TOOL_DEFINITIONS, request.tools)

    async def repeated(self, call: ModelCall) -> None:
        """A request of a model call is about to go out again."""
        if call.span is not None:
            call.span.event(v.REPEATED_TRY, {"retry_count": call.requests - 1})

    async def refused(self, call: ModelCall, status: int, retry_after: float | None) -> None:
        """The provider answered with an HTTP error."""
        if call.span is not None:
            call.span.event(v.FAILED_TRY, failed_try(status, call.requests - 1, retry_after))

    async def _ended(self, call: ModelCall, error: Exception | None) -> None:
        span = call.span
        if span is None:
            return  # it failed before anything was asked
        try:
            span.set(v.RETRIES, call.requests - 1)
            if call.streams and call.copy is not None and call.copy.first_chunk is not None:
                span.set(v.TIME_TO_FIRST_CHUNK, (call.copy.first_chunk - call.started) / 1e9)
            reply = copied_reply(call.copy, read_reply, error, span, self.recorder)
            message = reply.message
            if message is not None:
                span.set_messages(v.OUTPUT_MESSAGES, [message])
            if error is None:
                self._record_reply(call, span, reply)
        finally:
            span.end(error)
        await self.recorder.ready()

    def _record_reply(self, call: ModelCall, span: SpanHandle, reply: ChatReply) -> None:
        for name, value in reply.attributes.items():
            span.set(name, value)
        if not reply.calls:
            written = _written_call(call.tools, reply.text)
            if written is not None:
                span.set(v.WRITTEN_CALL_NAMES, [written])
            return
        span.set_body(v.TOOL_CALL_TEXTS, {each.id: each.arguments for each in reply.calls})
        span.set(v.ANNOUNCED_CALL_IDS, [each.id for each in reply.calls])
        span.set(v.ANNOUNCED_CALL_NAMES, [each.name for each in reply.calls])
        refused = [each.id for each in reply.calls if _refused(call.tools.get(each.name), each.arguments)]
        if refused:
            span.set(v.REJECTED_CALL_IDS, refused)
        for each in reply.calls:
            self.recorder.announce(each.id, span, each.arguments)


@dataclass(slots=True)
class ModelCall:
    """A model call in progress (implements `monitor.instruments.openai_http.Listener`)."""

    instrument: SmolagentsInstrument
    tools: Mapping[str, Any]
    span: SpanHandle | None = None
    started: int = 0
    streams: bool = False
    requests: int = 0
    copy: CopiedResponse | None = None

    def requested(self, body: bytes) -> None:
        """See `Listener`."""
        self.requests += 1
        if self.requests == 1:
            self.instrument.record("request", lambda: self.instrument.started(self, body))
        else:
            self.instrument.record("request", lambda: self.instrument.repeated(self))

    def answered(self, copy: CopiedResponse) -> None:
        """See `Listener`."""
        self.copy = copy

    def refused(self, status: int, retry_count: int | None, retry_after: float | None) -> None:
        """See `Listener`. The count is our own: smolagents' repetitions start the client's anew."""
        self.instrument.record("response", lambda: self.instrument.refused(self, status, retry_after))


def _written_call(tools: Mapping[str, Any], text: str | None) -> str | None:
    """The tool that smolagents will call by a reply's text, read as `Model.parse_tool_calls` reads it;
    None where it will call none."""
    if not tools or text is None:
        return None
    from smolagents.models import get_tool_call_from_text

    try:
        call = get_tool_call_from_text(text, "name", "arguments").function
        name = str(call.name)
    except Exception:  # noqa: BLE001  whatever it raises, no call is made
        return None
    return None if _refused(tools.get(name), call.arguments) else name


def _refused(tool: Any, arguments: Any) -> bool:
    """Whether smolagents will answer the call itself, by the check it makes before calling a tool."""
    if tool is None:
        return True
    from smolagents.models import parse_json_if_needed
    from smolagents.tools import validate_tool_arguments

    try:
        validate_tool_arguments(tool, parse_json_if_needed(arguments) or {})
    except Exception:  # noqa: BLE001  whatever it raises is a refusal
        return True
    return False


@lru_cache(maxsize=1)
def _watched_model_class() -> Any:
    from smolagents import OpenAIModel

    class WatchedModel(OpenAIModel):  # type: ignore[misc]  # the SDK has no types
        def __init__(self, instrument: SmolagentsInstrument, **arguments: Any) -> None:
            self._instrument = instrument
            super().__init__(**arguments)

        def generate(self, messages: Any, *args: Any, **asked: Any) -> Any:
            with self._instrument.model_call(asked.get("tools_to_call_from")):
                return super().generate(messages, *args, **asked)

        def generate_stream(self, messages: Any, *args: Any, **asked: Any) -> Iterator[Any]:
            with self._instrument.model_call(asked.get("tools_to_call_from")):
                yield from super().generate_stream(messages, *args, **asked)

    return WatchedModel

"""Harnesses and instruments that do one thing wrong, to see whether the comparison of records names it.

A mutation works at its source, in the worker, on a real attempt: in the recorder that the instrument
writes to, in the binding that the harness calls, or between the harness and its model, where a small
relay sends a request twice or rewrites it. `mutated` puts them around the runner and the instrument of
any card::

    card = mutated(CARD, {"task-1": Mutation.DROPPED_SPAN})

Attempts at other tasks run as they are. This module is imported in workers: it needs what they have.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from enum import StrEnum
from typing import Any
from urllib.parse import urlsplit

from pydantic import JsonValue

from atp.protocol.binding import AgentBinding, ToolResult
from atp.protocol.cards import HarnessCard
from atp.protocol.environment import UserTurn
from atp.protocol.runner import AgentRunner, RunContext
from atp.protocol.spans import AttributeValue, Instrument, Recorder, SpanHandle, SpanKind
from atp.protocol.task import AgentTask
from atp.protocol.trace import TaskTrace
from atp.worker.loading import load
from monitor import vocabulary as v
from monitor.records import Code

_PLAN = "ATP_CONFORMANCE_MUTATIONS"
"""Variable of the worker: the card's own runner and instrument, and the mutation of each task."""


class Mutation(StrEnum):
    """What is done wrong. Each strikes once, at the second occasion, so that something came before."""

    DROPPED_SPAN = "dropped_span"
    """A model call without a span."""
    ALTERED_USAGE = "altered_usage"
    """A span that tells one input token too many."""
    LOST_RETRY = "lost_retry"
    """Spans that tell of no failed try; needs an endpoint that fails and a client that tries again."""
    DROPPED_CALL = "dropped_call"
    """A tool call that the model hears was made, and that nobody made."""
    SWAPPED_CALL_ID = "swapped_call_id"
    """A tool call under the id of the one before."""
    ALTERED_ARGUMENT = "altered_argument"
    """A tool call with an argument that the model did not write."""
    DOUBLED_REQUEST = "doubled_request"
    """A request that is sent twice; the second answer is used."""
    PASTED_TRANSCRIPT = "pasted_transcript"
    """A request in which the conversation so far is one text of the user."""


NAMED_AS: Mapping[Mutation, Code] = {
    Mutation.DROPPED_SPAN: Code.RESPONSE_NOT_IN_SPANS,
    Mutation.ALTERED_USAGE: Code.RESPONSE_DIFFERS,
    Mutation.LOST_RETRY: Code.TRIES_DIFFER,
    Mutation.DROPPED_CALL: Code.CALL_NOT_EXECUTED,
    Mutation.SWAPPED_CALL_ID: Code.CALL_NOT_ANNOUNCED,
    Mutation.ALTERED_ARGUMENT: Code.ARGUMENTS_ALTERED,
    Mutation.DOUBLED_REQUEST: Code.REQUEST_DOUBLED,
    Mutation.PASTED_TRANSCRIPT: Code.TRANSCRIPT_PASTED,
}
"""What the comparison has to call it; an altered argument is listed as the harness's nature."""


def mutated(card: HarnessCard, by_task: Mapping[str, Mutation]) -> HarnessCard:
    """The card of a harness that does something wrong at some tasks.

    Args:
        card: The harness as it is.
        by_task: Task id -> what is done wrong there.
    """
    plan = {"runner": card.runner, "instrument": card.instrument, "tasks": dict(by_task)}
    return card.model_copy(
        update={
            "runner": f"{__name__}:MutatedRunner",
            "instrument": f"{__name__}:mutated_instrument",
            "environment": {**card.environment, _PLAN: json.dumps(plan)},
        }
    )


class MutatedRunner:
    """The card's own runner, with something wrong around it (an `AgentRunner`)."""

    def __init__(self) -> None:
        self._plan: dict[str, Any] = json.loads(os.environ[_PLAN])
        self._runner: AgentRunner = load(self._plan["runner"])()

    async def run(self, task: AgentTask, binding: AgentBinding, context: RunContext) -> TaskTrace:
        """See `AgentRunner.run`."""
        recorder = _recorders.pop(context.recorder.trace_id, None)
        chosen = self._plan["tasks"].get(task.task_id)
        if chosen is None:
            return await self._runner.run(task, binding, context)
        mutation = Mutation(chosen)
        if recorder is not None:
            recorder.mutation = mutation
        if mutation not in {Mutation.DOUBLED_REQUEST, Mutation.PASTED_TRANSCRIPT}:
            return await self._runner.run(task, _mutated_binding(binding, mutation), context)
        relay = _Relay(context.model.base_url, mutation)
        base_url = await relay.start()
        try:
            model = context.model.model_copy(update={"base_url": base_url})
            return await self._runner.run(task, binding, replace(context, model=model))
        finally:
            relay.stop()


def mutated_instrument(recorder: Recorder) -> Instrument:
    """The card's own instrument, writing to a recorder that may have something wrong."""
    known = _recorders[recorder.trace_id] = _MutatedRecorder(recorder)
    instrument: Instrument = load(json.loads(os.environ[_PLAN])["instrument"])(known)
    return instrument


class _MutatedRecorder:
    """Hands on, but for what the mutation does (implements `Recorder`)."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._model_spans = 0
        self.mutation: Mutation | None = None

    @property
    def trace_id(self) -> str:
        return self._recorder.trace_id

    @property
    def root(self) -> SpanHandle:
        return self._recorder.root

    def start(
        self,
        kind: SpanKind,
        name: str,
        *,
        parent: SpanHandle | None = None,
        attributes: Mapping[str, AttributeValue] | None = None,
    ) -> SpanHandle:
        self._model_spans += kind is SpanKind.MODEL
        second = kind is SpanKind.MODEL and self._model_spans == 2
        if second and self.mutation is Mutation.DROPPED_SPAN:
            return _LostSpan(self.root.span_id)
        span = self._recorder.start(kind, name, parent=parent, attributes=attributes)
        altered = second and self.mutation is Mutation.ALTERED_USAGE
        return _MutatedSpan(span, altered, self.mutation is Mutation.LOST_RETRY)

    def as_current(self, span_id: str) -> AbstractContextManager[None]:
        return self._recorder.as_current(span_id)

    def announce(self, call_id: str, span: SpanHandle, arguments: str | None = None) -> None:
        self._recorder.announce(call_id, span, arguments)

    def failed(self, where: str, error: Exception) -> None:
        self._recorder.failed(where, error)

    async def ready(self, *, before_call: bool = False) -> None:
        await self._recorder.ready(before_call=before_call)


_recorders: dict[str, _MutatedRecorder] = {}
"""Trace id -> recorder, from the making of an instrument until its runner runs."""


class _LostSpan:
    """A span that nobody records (implements `SpanHandle`)."""

    def __init__(self, span_id: str) -> None:
        self.span_id = span_id

    def set(self, name: str, value: AttributeValue) -> None:
        """Lost."""

    def set_body(self, name: str, value: Any) -> None:
        """Lost."""

    def set_messages(self, name: str, messages: Sequence[Any]) -> None:
        """Lost."""

    def event(self, name: str, attributes: Mapping[str, AttributeValue]) -> None:
        """Lost."""

    def end(self, error: BaseException | None = None) -> None:
        """Lost."""


class _MutatedSpan:
    """Hands on, but for usage and retries (implements `SpanHandle`)."""

    def __init__(self, span: SpanHandle, alters_usage: bool, loses_retries: bool) -> None:
        self._span = span
        self._alters_usage = alters_usage
        self._loses_retries = loses_retries

    @property
    def span_id(self) -> str:
        return self._span.span_id

    def set(self, name: str, value: AttributeValue) -> None:
        if self._alters_usage and name == v.USAGE_INPUT and isinstance(value, int):
            value += 1
        if self._loses_retries and name == v.RETRIES:
            value = 0
        self._span.set(name, value)

    def set_body(self, name: str, value: Any) -> None:
        self._span.set_body(name, value)

    def set_messages(self, name: str, messages: Sequence[Any]) -> None:
        self._span.set_messages(name, messages)

    def event(self, name: str, attributes: Mapping[str, AttributeValue]) -> None:
        if not (self._loses_retries and name == v.FAILED_TRY):
            self._span.event(name, attributes)

    def end(self, error: BaseException | None = None) -> None:
        self._span.end(error)


def _mutated_binding(binding: AgentBinding, mutation: Mutation) -> AgentBinding:
    return AgentBinding(
        _MutatedPort(binding, mutation),
        system_prompt=binding.system_prompt,
        tools=binding.tools,
        has_user=binding.has_user,
        workspace=binding.workspace,
        tool_errors=binding.tool_errors,
    )


class _MutatedPort:
    """A binding behind a binding (implements `BindingPort`)."""

    def __init__(self, binding: AgentBinding, mutation: Mutation) -> None:
        self._binding = binding
        self._mutation = mutation
        self._calls = 0
        self._last_id: str | None = None

    async def call(
        self, name: str, arguments: JsonValue, call_id: str | None, parent: SpanHandle | None
    ) -> ToolResult:
        self._calls += 1
        if self._calls == 2:
            match self._mutation:
                case Mutation.DROPPED_CALL:
                    return ToolResult(value="done")
                case Mutation.SWAPPED_CALL_ID:
                    call_id = self._last_id
                case Mutation.ALTERED_ARGUMENT if isinstance(arguments, dict):
                    arguments = {**arguments, "altered": True}
                case _:
                    pass
        self._last_id = call_id
        return await self._binding.call(name, arguments, call_id, parent)

    async def user_open(self) -> UserTurn:
        return await self._binding.user_open()

    async def user_reply(self, text: str) -> UserTurn:
        return await self._binding.user_reply(text)


class _Relay:
    """Stands between a harness and its model, as a client that does something wrong would.

    Args:
        base_url: The model's, `http` only.
        mutation: What it does wrong with the second request.
    """

    def __init__(self, base_url: str, mutation: Mutation) -> None:
        self._target = urlsplit(base_url)
        self._mutation = mutation
        self._requests = 0
        self._server: asyncio.Server | None = None

    async def start(self) -> str:
        """Listen on a free port of the loopback interface; gives the base URL there."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        return f"http://127.0.0.1:{port}{self._target.path}"

    def stop(self) -> None:
        """Listen no more."""
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            first, *lines = (
                (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").rstrip("\r\n").split("\r\n")
            )
            headers = dict(line.split(": ", 1) for line in lines)
            length = next(int(size) for name, size in headers.items() if name.lower() == "content-length")
            body = await reader.readexactly(length)
            self._requests += 1
            second = self._requests == 2
            if second and self._mutation is Mutation.PASTED_TRANSCRIPT:
                body = _pasted(body)
            answer = await self._forwarded(first, headers, body)
            if second and self._mutation is Mutation.DOUBLED_REQUEST:
                answer = await self._forwarded(first, headers, body)
            writer.write(answer)
            await writer.drain()
        finally:
            writer.close()

    async def _forwarded(self, first: str, headers: Mapping[str, str], body: bytes) -> bytes:
        own = {"connection", "content-length"}
        sent = {name: value for name, value in headers.items() if name.lower() not in own}
        sent |= {"Content-Length": str(len(body)), "Connection": "close"}
        head = "\r\n".join([first, *(f"{name}: {value}" for name, value in sent.items())])
        reader, writer = await asyncio.open_connection(self._target.hostname, self._target.port)
        try:
            writer.write(f"{head}\r\n\r\n".encode("latin-1") + body)
            return await reader.read()
        finally:
            writer.close()


def _pasted(body: bytes) -> bytes:
    request: dict[str, Any] = json.loads(body)
    if "contents" in request:
        told = "\n".join(json.dumps(content, ensure_ascii=False) for content in request["contents"])
        request["contents"] = [{"role": "user", "parts": [{"text": told}]}]
        return json.dumps(request, ensure_ascii=False).encode()
    key = "messages" if "messages" in request else "input"
    system = [item for item in request[key] if item.get("role") in {"system", "developer"}]
    rest = [json.dumps(item, ensure_ascii=False) for item in request[key] if item not in system]
    request[key] = [*system, {"role": "user", "content": "\n".join(rest)}]
    return json.dumps(request, ensure_ascii=False).encode()

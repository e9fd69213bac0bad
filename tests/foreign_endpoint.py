"""An OpenAI-compatible server that shares no line with `atp.models`: replies are raw dictionaries.

It stands for somebody else's server. A test says what it answers, in order of arrival, and reads
afterwards what it was asked. It runs in a thread, so that synchronous tests and tests that start
the command line can use it as well.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web

PATIENCE = 20.0
"""Seconds that starting and stopping may take on a busy machine; both take milliseconds."""


@dataclass(frozen=True)
class ForeignReply:
    """One answer."""

    body: Mapping[str, Any] | None = None
    """JSON body of an answer that is not streamed."""
    events: Sequence[Mapping[str, Any]] = ()
    """Chunks of an answer to a request with `"stream": true`, without the closing `[DONE]`."""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    raw: bytes | None = None
    """Sent in place of `body`: a page of HTML, say."""
    hang: bool = False
    """Read the request and never answer."""
    drop_after: int | None = None
    """Cut the connection after so many events; 0 cuts it before the first byte of the answer."""


@dataclass(frozen=True)
class ForeignRequest:
    """One request as it arrived."""

    path: str
    headers: Mapping[str, str]
    """Names in lower case."""
    raw: bytes
    body: Any
    """`raw` as JSON."""


def completion(
    response_id: str = "chatcmpl-foreign-1",
    *,
    text: str | None = None,
    reasoning: str | None = None,
    tool_calls: Sequence[tuple[str, str, str]] = (),
    usage: Mapping[str, Any] | None = None,
    model: str = "foreign-model",
    finish_reason: str | None = None,
) -> dict[str, Any]:
    """A chat completion as a dictionary.

    Args:
        response_id: The id of the reply.
        text: `content`.
        reasoning: `reasoning_content`; left out of the message when None.
        tool_calls: (id, name, arguments as JSON text).
        usage: As it goes on the wire; left out when None.
        model: The model that answered.
        finish_reason: By default what follows from the reply.
    """
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if reasoning is not None:
        message["reasoning_content"] = reasoning
    if tool_calls:
        message["tool_calls"] = [
            {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
            for call_id, name, arguments in tool_calls
        ]
    reply: dict[str, Any] = {
        "id": response_id,
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": model,
        "choices": [
            {
                "index": 0,
                "message": message,
                "finish_reason": finish_reason or ("tool_calls" if tool_calls else "stop"),
            }
        ],
    }
    if usage is not None:
        reply["usage"] = dict(usage)
    return reply


def events_of(reply: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The chunks that stream a `completion`; usage, if it has any, in a last one of its own."""
    head = {key: reply[key] for key in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
    choice = reply["choices"][0]
    message = choice["message"]
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    for key in ("reasoning_content", "content"):
        text = message.get(key) or ""
        deltas += [{key: text[start : start + 7]} for start in range(0, len(text), 7)]
    for index, call in enumerate(message.get("tool_calls", ())):
        arguments = call["function"]["arguments"]
        deltas.append(
            {"tool_calls": [{**call, "index": index, "function": {**call["function"], "arguments": ""}}]}
        )
        deltas += [
            {"tool_calls": [{"index": index, "function": {"arguments": arguments[start : start + 5]}}]}
            for start in range(0, len(arguments), 5)
        ]
    chunks: list[dict[str, Any]] = [
        {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas
    ]
    chunks.append({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]})
    if "usage" in reply:
        chunks.append({**head, "choices": [], "usage": reply["usage"]})
    return chunks


def replying(reply: Mapping[str, Any]) -> ForeignReply:
    """A completion, ready to be given streamed or not."""
    return ForeignReply(body=reply, events=events_of(reply))


class ForeignEndpoint:
    """The server. Set `replies` or `respond` before asking it; both may change at any time."""

    def __init__(self) -> None:
        self.replies: list[ForeignReply] = []
        """One for each request to a model, in order of arrival."""
        self.respond: Callable[[ForeignRequest, int], ForeignReply] | None = None
        """Decides in place of `replies`, by the request and its number from 0."""
        self.requests: list[ForeignRequest] = []
        """Everything that was asked, in order of arrival."""
        self.base_url = ""
        self._loop: asyncio.AbstractEventLoop
        self._stopping: asyncio.Event
        self._failure: BaseException | None = None
        self._listens = threading.Event()
        # A daemon: whatever goes wrong here, it does not keep the tests' process from ending.
        self._thread = threading.Thread(target=self._run, name="foreign-endpoint", daemon=True)

    def start(self) -> None:
        """Listen on a free port of the loopback interface."""
        self._thread.start()
        if not self._listens.wait(PATIENCE):
            raise TimeoutError(f"the foreign endpoint does not listen after {PATIENCE:g} s")
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """Close the port and every connection, hanging ones too."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(PATIENCE)
        if self._thread.is_alive():
            raise TimeoutError(f"the foreign endpoint does not stop after {PATIENCE:g} s")
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            self._failure = error  # `start` or `stop` raises it
        finally:
            self._listens.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        server = web.Server(self._handle, access_log=None)
        # Hanging requests are cut at the end; 0 would mean to wait for them.
        runner = web.ServerRunner(server, shutdown_timeout=0.05)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            self.base_url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
            self._listens.set()
            await self._stopping.wait()
        finally:
            for connection in server.connections:
                if connection.transport is not None:
                    connection.transport.abort()  # to close it would wait until its client has read all
            async with asyncio.timeout(PATIENCE / 2):
                await runner.cleanup()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        raw = await request.content.read()
        seen = ForeignRequest(
            path=request.path,
            headers={name.lower(): value for name, value in request.headers.items()},
            raw=raw,
            body=json.loads(raw) if raw else None,
        )
        number = len(self.requests)
        self.requests.append(seen)
        if request.path not in {"/v1/chat/completions", "/v1/responses"}:
            return web.json_response({"error": {"message": f"no {request.path} here"}}, status=404)
        if self.respond is not None:
            reply = self.respond(seen, number)
        elif number < len(self.replies):
            reply = self.replies[number]
        else:
            message = f"the test gave {len(self.replies)} replies, this is request {number + 1}"
            reply = ForeignReply(status=418, body={"error": {"message": message, "code": "no_reply_left"}})
        return await _send(request, reply, streamed=reply.status == 200 and seen.body.get("stream") is True)


async def _send(request: web.BaseRequest, reply: ForeignReply, *, streamed: bool) -> web.StreamResponse:
    if reply.hang:
        await asyncio.Event().wait()
    if reply.drop_after == 0:
        return _cut(request)
    if not streamed or reply.raw is not None:
        raw = reply.raw if reply.raw is not None else json.dumps(reply.body).encode()
        headers = {"content-type": "application/json", **reply.headers}
        return web.Response(status=reply.status, body=raw, headers=headers)
    response = web.StreamResponse(headers={"content-type": "text/event-stream", **reply.headers})
    await response.prepare(request)
    for sent, event in enumerate(reply.events):
        if sent == reply.drop_after:
            return _cut(request)
        # Events of the responses API are named, and its streams end without a word.
        named = b"event: " + event["type"].encode() + b"\n" if "type" in event else b""
        await response.write(named + b"data: " + json.dumps(event).encode() + b"\n\n")
    if request.path == "/v1/chat/completions":
        await response.write(b"data: [DONE]\n\n")
    await response.write_eof()
    return response


def _cut(request: web.BaseRequest) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.abort()
    # For form's sake: it can no longer be sent.
    return web.Response(status=500)


@pytest.fixture
def foreign_endpoint() -> Iterator[ForeignEndpoint]:
    """A foreign endpoint of the test's own."""
    endpoint = ForeignEndpoint()
    endpoint.start()
    try:
        yield endpoint
    finally:
        endpoint.stop()

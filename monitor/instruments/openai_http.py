"""Copies of what a provider is asked and answers, taken inside the HTTP client that the openai SDK uses.

The client is the SDK's own `DefaultAsyncHttpxClient`, given through the documented `http_client`
parameter (`http_async_client` in LangChain) and watched by its request and response hooks. The
bytes pass unchanged, as they arrive; the copy keeps what the SDK drops: reasoning text, arguments as
the model wrote them, the response id of a stream.

Which model call an answer belongs to is said by a context variable that the instrument sets before
the call, so one client serves all attempts of an event loop: making one costs 1.4 ms with a shared
SSL context and 34 ms without, and connections are kept alive between attempts.
"""

from __future__ import annotations

import atexit
import importlib
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any, Protocol

from atp.protocol.status import retry_seconds
from monitor.instruments.loop_client import LoopClient


class Listener(Protocol):
    """A model call in progress."""

    def requested(self, body: bytes) -> None:
        """A request goes out, for the first time or again."""

    def answered(self, copy: CopiedResponse) -> None:
        """A response has begun; its bytes follow."""

    def refused(self, status: int, retry_count: int | None, retry_after: float | None) -> None:
        """The provider answered with an HTTP error; `retry_after` is what it asks for, in seconds."""


MODEL_CALL: ContextVar[Listener | None] = ContextVar("atp_model_call", default=None)
"""The model call that requests of the present context belong to."""


@dataclass(slots=True)
class CopiedResponse:
    """What came so far of one response, still encoded as it was sent."""

    content_type: str
    content_encoding: str | None
    retry_count: int | None
    """Tries before this one, by the SDK's own count (`x-stainless-retry-count`)."""
    library: Any = field(kw_only=True)
    """The HTTP library of the client that got it: `httpx` or `httpx2`."""
    chunks: list[bytes] = field(default_factory=list)
    first_chunk: int | None = None
    """When the first of them came, by `time.perf_counter_ns`."""

    def content(self) -> bytes:
        """The bytes received, decoded."""
        content = b"".join(self.chunks)
        if self.content_encoding is None:
            return content
        response = self.library.Response(
            200, headers={"content-encoding": self.content_encoding}, content=content
        )
        decoded: bytes = response.content
        return decoded


@asynccontextmanager
async def http_clients() -> AsyncIterator[tuple[Any, Any]]:
    """The asynchronous and the synchronous client for `http_async_client` and `http_client`.

    Shared by all who hold it within the running event loop; closed when the last lets go. The
    synchronous one is there because the SDK makes one of its own otherwise, for as much CPU again.
    """
    async with _loop_client.held() as client:
        yield client, _synchronous_client()


async def _tell(request: Any) -> None:
    call = MODEL_CALL.get()
    if call is not None:
        call.requested(await request.aread())


def copying_hooks(library: Any) -> dict[str, list[Any]]:
    """The hooks (`event_hooks`) of an asynchronous client that tell of requests and copy responses.

    Args:
        library: The client's, `httpx` or `httpx2`.
    """

    async def copy(response: Any) -> None:
        copied = _copied(response, library)
        if copied is not None:
            response.stream = _copying_stream(library)(response.stream, copied)

    return {"request": [_tell], "response": [copy]}


def copying_asynchronous_client() -> Any:
    """A client for `http_client` of `AsyncOpenAI` that tells of requests and copies responses; the caller
    closes it, or leaves it to the collector as the SDK leaves its own."""
    import openai

    return openai.DefaultAsyncHttpxClient(verify=_ssl_context(), event_hooks=copying_hooks(_http()))


_loop_client = LoopClient(copying_asynchronous_client)


def copying_client(before: Callable[[Any], None]) -> Any:
    """A synchronous client for `http_client` that tells and copies as the asynchronous one does; the
    caller closes it.

    Args:
        before: Called with each request first of all; what it raises ends the request.
    """
    import openai

    hooks: dict[str, list[Any]] = {
        "request": [before, _tell_synchronously],
        "response": [_copy_synchronously],
    }
    return openai.DefaultHttpxClient(verify=_ssl_context(), event_hooks=hooks)


def _tell_synchronously(request: Any) -> None:
    call = MODEL_CALL.get()
    if call is not None:
        call.requested(request.read())


def _copy_synchronously(response: Any) -> None:
    copy = _copied(response, _http())
    if copy is not None:
        response.stream = _synchronously_copying_stream()(response.stream, copy)


def _copied(response: Any, library: Any) -> CopiedResponse | None:
    """Tell the listener of a response; the copy to fill, if it is one to copy."""
    call = MODEL_CALL.get()
    if call is None:
        return None
    sent = response.request.headers.get("x-stainless-retry-count")
    retry_count = int(sent) if sent is not None and sent.isdigit() else None
    if response.status_code >= 400:
        asked = response.headers.get("retry-after")
        call.refused(response.status_code, retry_count, None if asked is None else retry_seconds(asked))
        return None
    copy = CopiedResponse(
        content_type=response.headers.get("content-type", ""),
        content_encoding=response.headers.get("content-encoding"),
        retry_count=retry_count,
        library=library,
    )
    call.answered(copy)
    return copy


@lru_cache(maxsize=1)
def _http() -> Any:
    """The HTTP library behind the installed openai SDK: `httpx2` from version 3 on."""
    import openai

    return importlib.import_module("httpx2" if int(openai.__version__.split(".")[0]) >= 3 else "httpx")


@lru_cache(maxsize=1)
def _ssl_context() -> Any:
    return _http().create_ssl_context()


@lru_cache(maxsize=1)
def _synchronous_client() -> Any:
    import openai

    client = openai.DefaultHttpxClient(verify=_ssl_context())
    atexit.register(client.close)  # a graph of a user's own may call its model synchronously
    return client


@cache
def _copying_stream(library: Any) -> Any:
    base: Any = library.AsyncByteStream

    class CopyingStream(base):  # type: ignore[misc]  # the base is only known once the SDK is there
        def __init__(self, stream: Any, copy: CopiedResponse) -> None:
            self._stream = stream
            self._copy = copy

        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for chunk in self._stream:
                if self._copy.first_chunk is None:
                    self._copy.first_chunk = time.perf_counter_ns()
                self._copy.chunks.append(chunk)
                yield chunk

        async def aclose(self) -> None:
            await self._stream.aclose()

    return CopyingStream


@lru_cache(maxsize=1)
def _synchronously_copying_stream() -> Any:
    base: Any = _http().SyncByteStream

    class CopyingStream(base):  # type: ignore[misc]  # as above
        def __init__(self, stream: Any, copy: CopiedResponse) -> None:
            self._stream = stream
            self._copy = copy

        def __iter__(self) -> Iterator[bytes]:
            for chunk in self._stream:
                if self._copy.first_chunk is None:
                    self._copy.first_chunk = time.perf_counter_ns()
                self._copy.chunks.append(chunk)
                yield chunk

        def close(self) -> None:
            self._stream.close()

    return CopyingStream

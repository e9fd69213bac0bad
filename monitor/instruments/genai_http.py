"""Copies of what Gemini is asked and answers, taken inside the HTTP client that google-genai uses.

The client is an `httpx.AsyncClient` as the SDK makes them for itself, given through its documented
`httpx_async_client` and watched by its request and response hooks; see `openai_http`. One serves all
attempts of an event loop: each that the SDK makes loads the certificates anew.
"""

from __future__ import annotations

import atexit
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

from monitor.instruments.loop_client import LoopClient
from monitor.instruments.openai_http import copying_hooks


@asynccontextmanager
async def genai_http_clients() -> AsyncIterator[tuple[Any, Any]]:
    """The clients for `httpx_async_client` and `httpx_client`.

    Shared by all who hold them within the running event loop; closed when the last lets go. The
    synchronous one is there because the SDK makes one of its own otherwise, which nobody uses.
    """
    async with _loop_client.held() as client:
        yield client, _synchronous_client()


def _asynchronous_client() -> Any:
    import httpx

    return httpx.AsyncClient(verify=_ssl_context(), follow_redirects=True, event_hooks=copying_hooks(httpx))


_loop_client = LoopClient(_asynchronous_client)


@cache
def _ssl_context() -> Any:
    import httpx

    return httpx.create_ssl_context()


@cache
def _synchronous_client() -> Any:
    import httpx

    client = httpx.Client(verify=_ssl_context(), follow_redirects=True)
    atexit.register(client.close)
    return client

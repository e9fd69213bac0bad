"""Fetching a document: what a server can and cannot make of it."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer, unused_port

from atp.engine.fetched_document import fetched
from atp.protocol.errors import InfrastructureError, InvalidInput

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Serve = Callable[[Handler], Awaitable[str]]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Starts a server that answers every GET of `/document` in one way, and gives the URL."""
    servers: list[TestServer] = []

    async def start(handler: Handler) -> str:
        application = web.Application()
        application.router.add_get("/document", handler)
        server = TestServer(application, handler_cancellation=True)
        await server.start_server()
        servers.append(server)
        return str(server.make_url("/document"))

    yield start
    for server in servers:
        await server.close()


async def test_the_body_comes_as_it_was_sent_and_the_token_goes_as_a_bearer(serve: Serve) -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(body=request.headers["Authorization"].encode())

    assert await fetched(await serve(answer), "quartz", 100) == b"Bearer quartz"


async def test_reading_stops_one_byte_beyond_the_limit(serve: Serve) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:  # without end
            await response.write(b"x" * 65_536)

    assert await fetched(await serve(answer), None, 100_000) == b"x" * 100_001


async def test_what_is_packed_is_not_unpacked(serve: Serve) -> None:
    packed = gzip.compress(b"0" * 10_000_000)

    async def answer(request: web.Request) -> web.Response:
        return web.Response(body=packed, headers={"Content-Encoding": "gzip"})

    assert await fetched(await serve(answer), None, 1 << 20) == packed


async def test_a_redirect_is_not_followed(serve: Serve) -> None:
    reached: list[str] = []

    async def elsewhere(request: web.Request) -> web.Response:
        reached.append(request.path)
        return web.Response(body=b"{}")

    other = await serve(elsewhere)

    async def answer(request: web.Request) -> web.Response:
        return web.Response(status=302, headers={"Location": other})

    with pytest.raises(InfrastructureError, match="answered 302"):
        await fetched(await serve(answer), None, 100)
    assert reached == []


async def test_a_body_that_drips_is_given_up(serve: Serve) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b"x")
            await asyncio.sleep(0.01)

    with pytest.raises(InfrastructureError, match=r"not read within 0\.3 s"):
        await fetched(await serve(answer), None, 1 << 20, patience=0.3)


async def test_a_server_that_is_not_there_is_named() -> None:
    with pytest.raises(InfrastructureError, match="cannot be fetched"):
        await fetched(f"http://127.0.0.1:{unused_port()}/document", None, 100)


@pytest.mark.parametrize("url", ["file:///etc/passwd", "http://", "ftp://host/a", "http://a:quartz@host/"])
async def test_other_urls_are_refused_without_their_secrets(url: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        await fetched(url, None, 100)
    assert "quartz" not in raised.value.message

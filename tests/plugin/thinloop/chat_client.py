"""A chat completions client on plain sockets: one connection, kept alive, HTTP/1.1, no streaming."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.parse import urlsplit


class ChatHttpError(Exception):
    """The endpoint answered with an error."""

    def __init__(self, status_code: int, body: bytes) -> None:
        super().__init__(f"HTTP {status_code}: {body[:500].decode(errors='replace')}")
        self.status_code = status_code
        self.code = _error_code(body)


class ChatClient:
    """One conversation's connection to its model.

    Args:
        base_url: `http://host:port/path`.
        api_key: Sent as a bearer token.
        timeout: Seconds for one call; None waits for ever.
    """

    def __init__(self, base_url: str, api_key: str, timeout: float | None) -> None:
        parts = urlsplit(base_url)
        if parts.scheme != "http" or parts.hostname is None:
            raise ValueError(f"{base_url!r}: only http:// is spoken here")
        self._host, self._port = parts.hostname, parts.port or 80
        self._path = f"{parts.path.rstrip('/')}/chat/completions"
        self._authorization = f"Bearer {api_key}"
        self._timeout = timeout
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def complete(self, request: dict[str, Any]) -> dict[str, Any]:
        """One model call.

        Raises:
            ChatHttpError: A status other than 200.
            ConnectionError: No answer.
            TimeoutError: None in time.
            ValueError: An answer that is no reply.
        """
        body = json.dumps(request, ensure_ascii=False).encode()
        async with asyncio.timeout(self._timeout):
            try:
                status, answer = await self._exchange(body)
            except BaseException:
                self._drop()
                raise
        if status != 200:
            raise ChatHttpError(status, answer)
        reply: dict[str, Any] = json.loads(answer)
        if not reply["choices"]:
            raise ValueError("the reply has no choices")
        return reply

    async def close(self) -> None:
        """Close the connection."""
        self._drop()

    def _drop(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None

    async def _exchange(self, body: bytes) -> tuple[int, bytes]:
        if self._streams is None or self._streams[0].at_eof():
            self._drop()
            self._streams = await asyncio.open_connection(self._host, self._port, limit=1 << 20)
        reader, writer = self._streams
        head = (
            f"POST {self._path} HTTP/1.1\r\nHost: {self._host}:{self._port}\r\n"
            f"Authorization: {self._authorization}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        writer.write(head.encode() + body)
        await writer.drain()
        try:
            lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            headers = {
                name.strip().lower(): value.strip()
                for name, _, value in (line.partition(":") for line in lines[1:] if line)
            }
            answer = await _body(reader, headers)
        except asyncio.IncompleteReadError as error:
            raise ConnectionResetError("the endpoint closed the connection within an answer") from error
        if headers.get("connection", "").lower() == "close":
            self._drop()
        return int(lines[0].split(" ")[1]), answer


async def _body(reader: asyncio.StreamReader, headers: dict[str, str]) -> bytes:
    if headers.get("transfer-encoding", "").lower() != "chunked":
        return await reader.readexactly(int(headers["content-length"]))
    chunks: list[bytes] = []
    while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
        chunks.append(await reader.readexactly(size))
        await reader.readexactly(2)
    await reader.readuntil(b"\r\n")
    return b"".join(chunks)


def _error_code(body: bytes) -> str | None:
    try:
        code = json.loads(body)["error"]["code"]
    except (ValueError, LookupError, TypeError):  # an error page of some server in between
        return None
    return code if isinstance(code, str) else None

"""One document of a foreign server, fetched so that the server decides nothing but its content."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

import aiohttp

from atp.protocol.errors import InfrastructureError, InvalidInput

PATIENCE = 30.0
"""Seconds for all of it: connecting, waiting, reading."""


async def fetched(url: str, token: str | None, most_bytes: int, patience: float = PATIENCE) -> bytes:
    """The body that a GET of this URL gives, as it was sent: it is not unpacked.

    No redirect is followed, no proxy and no `.netrc` is asked. Reading stops one byte beyond `most_bytes`.

    Args:
        url: Where, `http` or `https`, without a name or password.
        token: Sent as a bearer token, if given.
        most_bytes: The most that is of interest.
        patience: Seconds for all of it.

    Raises:
        InvalidInput: It is no such URL.
        InfrastructureError: Nothing came in time, or an answer other than 200.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidInput(f"{url!r} is no URL of http or https")
    if parts.username is not None or parts.password is not None:
        raise InvalidInput(
            "a URL with a name or password in it is not fetched: give the token by its variable"
        )
    headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    timeout = aiohttp.ClientTimeout(total=patience)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout, trust_env=False, auto_decompress=False) as session,
            session.get(url, headers=headers, allow_redirects=False) as answer,
        ):
            if answer.status != 200:
                raise InfrastructureError(f"{url} answered {answer.status} and not 200", code="fetch_refused")
            return await _read(answer.content, most_bytes + 1)
    except TimeoutError as error:
        raise InfrastructureError(f"{url} was not read within {patience:g} s", code="fetch_failed") from error
    except (aiohttp.ClientError, ValueError) as error:
        raise InfrastructureError(
            f"{url} cannot be fetched: {type(error).__name__}: {error}", code="fetch_failed"
        ) from error


async def _read(content: aiohttp.StreamReader, most_bytes: int) -> bytes:
    try:
        return await content.readexactly(most_bytes)
    except asyncio.IncompleteReadError as all_of_it:
        return all_of_it.partial

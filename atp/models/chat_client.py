"""The engine's own model calls, in OpenAI's chat dialect: for a user or a judge, never for the agent.

A harness calls its model with its own client. This one stands for nobody's: it sends what it is given,
waits, and tries again where the status table says that another try makes sense.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any, Self
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp

from atp.protocol.chat import ChatMessage
from atp.protocol.errors import ModelCallFailed
from atp.protocol.model import ModelEndpoint
from atp.protocol.status import ErrorInfo, classify, retry_delay

MODEL_TIMEOUT = 600.0
"""Seconds for one try, where the user names none: what OpenAI's own client waits."""
TRIES = 3
"""Of one call: as many as OpenAI's own client makes."""
LONGEST_DELAY = 60.0
"""Seconds. A provider that asks for more ends the call: the attempt's own further try waits that long."""
_SHOWN = 500
"""Characters of a provider's error text that are kept."""


class ChatClient:
    """Calls models over one pool of connections. Use it as an async context manager.

    Args:
        timeout: Seconds for one try.
    """

    def __init__(self, timeout: float = MODEL_TIMEOUT) -> None:
        self._timeout = timeout
        self._session: aiohttp.ClientSession

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=self._timeout), connector=aiohttp.TCPConnector(limit=0)
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def complete(
        self,
        endpoint: ModelEndpoint,
        messages: Sequence[ChatMessage],
        *,
        temperature: float | None,
        failed: Callable[[ModelCallFailed], None],
    ) -> bytes:
        """Ask for the next message.

        Args:
            endpoint: Where, in OpenAI's chat dialect.
            messages: All of them.
            temperature: None leaves it out.
            failed: Told of every try that gave no answer, when it happens.

        Returns:
            The body of the provider's answer, whatever it holds.

        Raises:
            ModelCallFailed: The last try's failure.
        """
        request: dict[str, Any] = {
            "model": endpoint.model,
            "messages": [{"role": message.role, "content": message.content} for message in messages],
        }
        if temperature is not None:
            request["temperature"] = temperature
        body = json.dumps(request).encode()
        for number in range(1, TRIES + 1):
            try:
                return await self._try(endpoint, body)
            except ModelCallFailed as failure:
                failed(failure)
                error = ErrorInfo.of(failure)
                delay = retry_delay(number, error)
                if number == TRIES or delay > LONGEST_DELAY or not classify(error).retry:
                    raise
            await asyncio.sleep(delay)
        raise AssertionError("unreachable: the last try returns or raises")

    async def _try(self, endpoint: ModelEndpoint, body: bytes) -> bytes:
        url = f"{endpoint.base_url}/chat/completions"
        key = endpoint.api_key.get_secret_value()
        headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}
        try:
            async with self._session.post(url, data=body, headers=headers, proxy=_proxy(url)) as answer:
                content = await answer.read()
        except TimeoutError as error:
            raise ModelCallFailed(
                f"model {endpoint.model!r} at {endpoint.base_url} gave no answer within {self._timeout:g} s"
            ) from error
        except aiohttp.ClientError as error:
            what = f"{type(error).__name__}: {error}".replace(key, "…")
            raise ModelCallFailed(
                f"model {endpoint.model!r} at {endpoint.base_url} cannot be asked: {what}"
            ) from error
        if answer.status == 200:
            return content
        code, text = _complaint(content)
        raise ModelCallFailed(
            f"model {endpoint.model!r} at {endpoint.base_url} answered HTTP {answer.status}: "
            f"{text.replace(key, '…')}",
            status_code=answer.status,
            provider_code=code,
            retry_after=_seconds(answer.headers.get("retry-after")),
        )


def _proxy(url: str) -> str | None:
    # Read as other clients read it. aiohttp's own `trust_env` would also take keys out of a .netrc file.
    parts = urlsplit(url)
    return None if proxy_bypass(parts.netloc) else getproxies().get(parts.scheme)


def _complaint(content: bytes) -> tuple[str | None, str]:
    """The code and the text of a provider's error."""
    shown = content.decode("utf-8", "replace").strip()
    try:
        error = json.loads(content)["error"]
        code, message = error.get("code"), error.get("message")
    except (ValueError, LookupError, TypeError, AttributeError):  # not in OpenAI's form
        code, message = None, None
    text = message if isinstance(message, str) else shown
    return code if isinstance(code, str) else None, text[:_SHOWN]


def _seconds(text: str | None) -> float | None:
    """Of a `retry-after` header; None where it is missing or a date."""
    return float(text) if text is not None and text.replace(".", "", 1).isdecimal() else None

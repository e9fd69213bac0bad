"""ADK's own models, each with its own client: Gemini, and OpenAI's two APIs without LiteLLM."""

from __future__ import annotations

from contextlib import AsyncExitStack
from functools import cache
from typing import Any

from atp.protocol.model import Dialect
from atp.protocol.runner import RunContext
from monitor.instruments.genai_http import genai_http_clients
from monitor.instruments.openai_http import http_clients


async def adk_model(context: RunContext, retries: int | None, held: AsyncExitStack) -> Any:
    """The model of an attempt.

    Args:
        context: Names the endpoint and the model's timeout.
        retries: How often its client asks again; None leaves that to ADK.
        held: Lets go of the HTTP client.
    """
    if context.model.dialect is Dialect.GEMINI:
        return _gemini(context, retries, *await held.enter_async_context(genai_http_clients()))
    from openai import AsyncOpenAI

    chosen: dict[str, Any] = {}
    if context.limits.model_timeout is not None:
        chosen["timeout"] = context.limits.model_timeout
    if retries is not None:
        chosen["max_retries"] = retries
    http_client, _ = await held.enter_async_context(http_clients())
    client = AsyncOpenAI(
        base_url=context.model.base_url,
        api_key=context.model.api_key.get_secret_value(),
        http_client=http_client,
        **chosen,
    )
    if context.model.dialect is Dialect.OPENAI_RESPONSES:
        from google.adk.integrations.openai import OpenAIResponsesLlm

        return OpenAIResponsesLlm(model=context.model.model, client=client)
    return _chat_model_class()(model=context.model.model, client=client)


def _gemini(context: RunContext, retries: int | None, http_async_client: Any, http_client: Any) -> Any:
    from google.adk.models import Gemini
    from google.genai import Client
    from google.genai.types import HttpOptions, HttpRetryOptions

    timeout = context.limits.model_timeout
    options = HttpOptions(
        base_url=context.model.base_url,
        timeout=None if timeout is None else round(timeout * 1000),
        retry_options=None if retries is None else HttpRetryOptions(attempts=retries + 1),
        httpx_async_client=http_async_client,
        httpx_client=http_client,
    )
    # A client of our own making, or ADK looks for Google Cloud around it.
    client = Client(api_key=context.model.api_key.get_secret_value(), enterprise=False, http_options=options)
    return Gemini(model=context.model.model, client=client)


@cache
def _chat_model_class() -> Any:
    from google.adk.integrations.openai import OpenAILlm

    class UncappedOpenAILlm(OpenAILlm):  # type: ignore[misc]  # ADK is not where types are checked
        """Leaves the number of tokens to the provider, as ADK's other models do."""

        max_tokens: int | None = None

    return UncappedOpenAILlm

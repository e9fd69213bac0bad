"""The model client of LangGraph attempts: one ChatOpenAI for all that would make the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from atp.protocol.runner import RunContext

if TYPE_CHECKING:
    from langchain_openai import ChatOpenAI

_models: WeakValueDictionary[tuple[object, ...], ChatOpenAI] = WeakValueDictionary()


def chat_model(context: RunContext, stream: bool, http_async_client: Any, http_client: Any) -> ChatOpenAI:
    """The ChatOpenAI of an attempt, shared with attempts that run now and have the same in all it is made of.

    It keeps no state between calls, and making one costs 2 ms of CPU. Nothing but the attempts holds it, so
    it goes when they do, and with it the HTTP clients.

    Args:
        context: Names the endpoint, the sampling and the model's timeout.
        stream: Whether to ask for streams.
        http_async_client: Of the running event loop.
        http_client: Beside it.
    """
    timeout = context.limits.model_timeout
    key = (http_async_client, http_client, context.model, context.sampling, timeout, stream)
    model = _models.get(key)
    if model is None:
        model = _models[key] = _chat_model(context, stream, http_async_client, http_client)
    return model


def _chat_model(context: RunContext, stream: bool, http_async_client: Any, http_client: Any) -> ChatOpenAI:
    from langchain_openai import ChatOpenAI

    chosen: dict[str, Any] = {}
    if context.sampling.temperature is not None:
        chosen["temperature"] = context.sampling.temperature
    if context.sampling.max_output_tokens is not None:
        chosen["max_tokens"] = context.sampling.max_output_tokens
    if context.limits.model_timeout is not None:
        chosen["timeout"] = context.limits.model_timeout
    if stream:
        chosen["streaming"] = True
    return ChatOpenAI(
        base_url=context.model.base_url,
        api_key=context.model.api_key,
        model=context.model.model,
        stream_usage=True,
        http_async_client=http_async_client,
        http_client=http_client,
        **chosen,
    )

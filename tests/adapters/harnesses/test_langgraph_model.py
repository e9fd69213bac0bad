"""Which attempts share a model client, and for how long."""

from __future__ import annotations

import asyncio
import gc
import weakref
from dataclasses import replace
from typing import Any

import pytest
from pydantic import SecretStr

from adapters.harnesses.langgraph import chat_model
from atp.protocol.model import Limits, Sampling
from monitor.instruments.openai_http import http_clients
from monitor.records import model_calls
from tests.adapters.harnesses.langgraph_attempt import attempt
from tests.foreign_endpoint import ForeignEndpoint, ForeignReply, ForeignRequest, completion, replying

URL = "http://127.0.0.1:9/v1"


async def test_attempts_that_have_the_same_share_one_model() -> None:
    first, second = attempt(URL, run_id="run-a"), attempt(URL, run_id="run-b")
    async with http_clients() as clients:
        assert chat_model(first.context, False, *clients) is chat_model(second.context, False, *clients)


@pytest.mark.parametrize(
    "other",
    [
        {"base_url": "http://127.0.0.1:9/other"},
        {"sampling": Sampling(temperature=0.5)},
        {"limits": Limits(model_timeout=5.0)},
    ],
    ids=lambda other: next(iter(other)),
)
async def test_attempts_that_differ_in_what_the_model_is_made_of_share_none(other: dict[str, Any]) -> None:
    one, another = attempt(URL), attempt(**{"base_url": URL, **other})
    async with http_clients() as clients:
        model = chat_model(one.context, False, *clients)
        assert chat_model(another.context, False, *clients) is not model


async def test_neither_another_key_nor_streaming_shares_the_model() -> None:
    one = attempt(URL).context
    endpoint = one.model.model_copy(update={"api_key": SecretStr("key-b")})
    async with http_clients() as clients:
        model = chat_model(one, False, *clients)
        assert chat_model(replace(one, model=endpoint), False, *clients) is not model
        assert chat_model(one, True, *clients) is not model


async def test_a_model_goes_with_the_attempts_that_held_it() -> None:
    run = attempt(URL)
    async with http_clients() as clients:
        model = weakref.ref(chat_model(run.context, False, *clients))
        gc.collect()
        assert model() is None


async def test_attempts_that_share_a_model_at_once_keep_their_answers_and_spans_apart(
    foreign_endpoint: ForeignEndpoint,
) -> None:
    def echo(request: ForeignRequest, number: int) -> ForeignReply:
        return replying(completion(f"resp-{number}", text=request.body["messages"][-1]["content"]))

    foreign_endpoint.respond = echo
    runs = [attempt(foreign_endpoint.base_url, run_id=f"run-{number}") for number in range(8)]
    traces = await asyncio.gather(*(run.run(f"line {number}") for number, run in enumerate(runs)))
    assert [trace.final_answer for trace in traces] == [f"line {number}" for number in range(8)]
    for run, trace in zip(runs, traces, strict=True):
        assert trace.response_ids is not None
        assert [call.response_id for call in model_calls(run.sink.ends)] == list(trace.response_ids)

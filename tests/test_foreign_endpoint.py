"""The foreign endpoint that other tests rely on does what they rely on."""

from __future__ import annotations

import socket

import openai
import pytest
from aiohttp import web
from openai.types.chat import ChatCompletionMessageParam

from tests.foreign_endpoint import ForeignEndpoint, ForeignReply, completion, replying

ASKED: list[ChatCompletionMessageParam] = [{"role": "user", "content": "hello"}]
USAGE = {
    "prompt_tokens": 50,
    "completion_tokens": 20,
    "total_tokens": 70,
    "prompt_tokens_details": {"cached_tokens": 32},
    "completion_tokens_details": {"reasoning_tokens": 12},
}


def client(endpoint: ForeignEndpoint, timeout: float = 30.0) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=endpoint.base_url, api_key="sk-test", max_retries=0, timeout=timeout)


async def test_a_reply_arrives_as_it_was_given_and_the_request_is_kept(
    foreign_endpoint: ForeignEndpoint,
) -> None:
    foreign_endpoint.replies = [replying(completion("r-1", text="hi", reasoning="hm", usage=USAGE))]
    async with client(foreign_endpoint) as asking:
        reply = await asking.chat.completions.create(model="m", messages=ASKED)
    assert reply.id == "r-1"
    assert reply.choices[0].message.content == "hi"
    assert reply.usage is not None
    assert reply.usage.to_dict() == USAGE
    assert foreign_endpoint.requests[0].body["messages"] == ASKED
    assert foreign_endpoint.requests[0].headers["authorization"] == "Bearer sk-test"


async def test_a_streamed_reply_adds_up_to_the_one_that_was_given(foreign_endpoint: ForeignEndpoint) -> None:
    given = completion(text="a longer text", tool_calls=[("c1", "look", '{"at": "sky"}')], usage=USAGE)
    foreign_endpoint.replies = [replying(given)]
    text, arguments, usages = "", "", []
    async with client(foreign_endpoint) as asking:
        async for chunk in await asking.chat.completions.create(model="m", messages=ASKED, stream=True):
            usages.append(chunk.usage)
            for choice in chunk.choices:
                text += choice.delta.content or ""
                for call in choice.delta.tool_calls or ():
                    assert call.function is not None
                    arguments += call.function.arguments or ""
    assert (text, arguments) == ("a longer text", '{"at": "sky"}')
    assert [usage.to_dict() for usage in usages if usage is not None] == [USAGE]


async def test_an_error_status_reaches_the_client(foreign_endpoint: ForeignEndpoint) -> None:
    body = {"error": {"message": "slow down", "code": "rate_limit_exceeded"}}
    foreign_endpoint.replies = [ForeignReply(status=429, body=body, headers={"retry-after": "7"})]
    async with client(foreign_endpoint) as asking:
        with pytest.raises(openai.RateLimitError) as caught:
            await asking.chat.completions.create(model="m", messages=ASKED)
    assert caught.value.response.headers["retry-after"] == "7"


@pytest.mark.parametrize("after", [0, 2])
async def test_a_dropped_connection_is_one_for_the_client(
    foreign_endpoint: ForeignEndpoint, after: int
) -> None:
    given = replying(completion(text="never heard to its end"))
    foreign_endpoint.replies = [ForeignReply(events=given.events, drop_after=after)]
    async with client(foreign_endpoint) as asking:
        with pytest.raises(Exception, match=r"Connection error|[Pp]eer closed|incomplete"):
            async for _ in await asking.chat.completions.create(model="m", messages=ASKED, stream=True):
                pass


async def test_a_hanging_endpoint_can_be_stopped(foreign_endpoint: ForeignEndpoint) -> None:
    foreign_endpoint.replies = [ForeignReply(hang=True)]
    async with client(foreign_endpoint, timeout=0.2) as asking:
        with pytest.raises(openai.APITimeoutError):
            await asking.chat.completions.create(model="m", messages=ASKED)


async def test_a_request_beyond_the_given_replies_is_an_error(foreign_endpoint: ForeignEndpoint) -> None:
    async with client(foreign_endpoint) as asking:
        with pytest.raises(openai.APIStatusError, match="the test gave 0 replies"):
            await asking.chat.completions.create(model="m", messages=ASKED)


def test_an_endpoint_whose_thread_failed_says_so_and_keeps_nobody_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*arguments: object, **options: object) -> None:
        raise OSError("no port left")

    monkeypatch.setattr(web, "ServerRunner", refuse)
    endpoint = ForeignEndpoint()
    with pytest.raises(OSError, match="no port left"):
        endpoint.start()


def test_an_endpoint_stops_while_a_client_that_reads_nothing_holds_its_connection() -> None:
    endpoint = ForeignEndpoint()
    endpoint.start()
    endpoint.replies = [ForeignReply(raw=b"x" * 50_000_000)]
    address = ("127.0.0.1", int(endpoint.base_url.split(":")[2].split("/")[0]))
    with socket.create_connection(address) as client:
        client.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")
        client.recv(1)
        endpoint.stop()

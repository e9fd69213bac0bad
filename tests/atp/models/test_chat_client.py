"""The engine's own model calls, against somebody else's server."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping

import pytest
from pydantic import SecretStr

from atp.models.chat_client import TRIES, ChatClient
from atp.protocol.chat import ChatMessage
from atp.protocol.errors import ModelCallFailed
from atp.protocol.model import Dialect, ModelEndpoint
from tests.foreign_endpoint import ForeignEndpoint, ForeignReply, completion, replying

MESSAGES = (ChatMessage(role="system", content="Play."), ChatMessage(role="user", content="Grüß Gott \ud83d"))
KEY = "sk-very-secret"


def endpoint(base_url: str) -> ModelEndpoint:
    return ModelEndpoint(
        dialect=Dialect.OPENAI_CHAT,
        base_url=base_url,
        model="m-1",
        api_key=SecretStr(KEY),
        provider="openai",
    )


async def called(
    base_url: str, *, temperature: float | None = None, timeout: float = 20.0
) -> tuple[bytes | ModelCallFailed, list[ModelCallFailed]]:
    failures: list[ModelCallFailed] = []
    async with ChatClient(timeout) as client:
        try:
            answer: bytes | ModelCallFailed = await client.complete(
                endpoint(base_url), MESSAGES, temperature=temperature, failed=failures.append
            )
        except ModelCallFailed as failure:
            answer = failure
    return answer, failures


def refusal(
    status: int, code: str | None = None, headers: Mapping[str, str] | None = None, message: str = "no"
) -> ForeignReply:
    body = {"error": {"message": message, "code": code}}
    return ForeignReply(status=status, body=body, headers=headers or {})


WELL = replying(completion("chatcmpl-1", text="Good day."))


async def test_a_call_sends_model_and_messages_and_nothing_else(foreign_endpoint: ForeignEndpoint) -> None:
    foreign_endpoint.replies = [WELL]
    answer, failures = await called(foreign_endpoint.base_url)
    assert isinstance(answer, bytes)
    assert json.loads(answer) == WELL.body
    assert failures == []
    [request] = foreign_endpoint.requests
    assert request.path == "/v1/chat/completions"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.body == {
        "model": "m-1",
        "messages": [message.model_dump() for message in MESSAGES],
    }


async def test_a_temperature_of_0_is_sent(foreign_endpoint: ForeignEndpoint) -> None:
    foreign_endpoint.replies = [WELL]
    await called(foreign_endpoint.base_url, temperature=0.0)
    assert foreign_endpoint.requests[0].body["temperature"] == 0.0


@pytest.mark.parametrize(
    "first",
    [refusal(429, headers={"retry-after": "0.01"}), refusal(503), ForeignReply(drop_after=0)],
    ids=["429", "503", "cut"],
)
async def test_what_may_pass_is_tried_again(foreign_endpoint: ForeignEndpoint, first: ForeignReply) -> None:
    foreign_endpoint.replies = [first, WELL]
    answer, failures = await called(foreign_endpoint.base_url)
    assert isinstance(answer, bytes)
    assert len(failures) == 1
    assert foreign_endpoint.requests[0].raw == foreign_endpoint.requests[1].raw


@pytest.mark.parametrize(
    ("reply", "status", "code"),
    [
        (refusal(400, "content_filter"), 400, "content_filter"),
        (refusal(401), 401, None),
        (refusal(404), 404, None),
        (refusal(429, "insufficient_quota"), 429, "insufficient_quota"),
    ],
)
async def test_what_will_not_pass_is_tried_once(
    foreign_endpoint: ForeignEndpoint, reply: ForeignReply, status: int, code: str | None
) -> None:
    foreign_endpoint.replies = [reply, WELL]
    answer, failures = await called(foreign_endpoint.base_url)
    assert failures == [answer]
    assert (failures[0].status_code, failures[0].provider_code) == (status, code)
    assert len(foreign_endpoint.requests) == 1


async def test_a_provider_that_asks_for_an_hour_is_not_waited_for(foreign_endpoint: ForeignEndpoint) -> None:
    foreign_endpoint.replies = [refusal(429, headers={"retry-after": "3600"}), WELL]
    answer, failures = await called(foreign_endpoint.base_url)
    assert failures == [answer]
    assert failures[0].retry_after == 3600.0


async def test_tries_come_to_an_end(foreign_endpoint: ForeignEndpoint) -> None:
    foreign_endpoint.respond = lambda request, number: refusal(500, message=f"try {number}")
    answer, failures = await called(foreign_endpoint.base_url)
    assert failures[-1] is answer
    assert len(failures) == len(foreign_endpoint.requests) == TRIES
    assert "HTTP 500: try 2" in failures[-1].message


async def test_nobody_listens_there() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # without listening: a connection is refused
        answer, failures = await called(f"http://127.0.0.1:{taken.getsockname()[1]}/v1")
    assert isinstance(answer, ModelCallFailed)
    assert "cannot be asked" in answer.message
    assert len(failures) == TRIES


async def test_an_answer_that_does_not_come_is_given_up(foreign_endpoint: ForeignEndpoint) -> None:
    foreign_endpoint.respond = lambda request, number: ForeignReply(hang=True)
    answer, failures = await called(foreign_endpoint.base_url, timeout=0.1)
    assert isinstance(answer, ModelCallFailed)
    assert "no answer within 0.1 s" in answer.message
    assert len(failures) == TRIES


@pytest.mark.parametrize(
    "reply",
    [
        refusal(401, message=f"incorrect key: {KEY}"),
        ForeignReply(status=401, raw=f"<p>{KEY}</p>".encode()),
        ForeignReply(status=401, raw=f'["{KEY}"]'.encode()),
        ForeignReply(status=401, raw=f'{{"error": "{KEY}"}}'.encode()),
    ],
    ids=["message", "page", "list", "text"],
)
async def test_a_key_that_the_provider_repeats_is_not_shown(
    foreign_endpoint: ForeignEndpoint, reply: ForeignReply
) -> None:
    foreign_endpoint.replies = [reply]
    answer, _ = await called(foreign_endpoint.base_url)
    assert isinstance(answer, ModelCallFailed)
    assert KEY not in answer.message
    assert "…" in answer.message


async def test_a_proxy_of_the_environment_is_used_and_its_exceptions_are_kept(
    foreign_endpoint: ForeignEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", foreign_endpoint.base_url.removesuffix("/v1"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    foreign_endpoint.replies = [WELL]
    answer, _ = await called(foreign_endpoint.base_url)
    assert isinstance(answer, bytes)
    monkeypatch.setenv("no_proxy", "")
    answer, _ = await called("http://somewhere.invalid/v1")
    assert isinstance(answer, ModelCallFailed)
    assert answer.status_code == 418  # the test's server took the request: it has no reply left

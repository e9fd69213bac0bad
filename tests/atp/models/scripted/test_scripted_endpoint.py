"""The scripted endpoint as harnesses, and the engine, meet it: a real process and real HTTP."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import openai
import psutil
import pytest
import pytest_asyncio
from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolParam
from pydantic import JsonValue

from atp.models.scripted import Script, ScriptedEndpoint, ScriptedSession
from atp.models.scripted.policies import NOOP_SENTENCE
from atp.models.scripted.wire_log import model_call_of, read_wire_log
from atp.protocol.errors import InfrastructureError, InvalidInput
from atp.protocol.model import Dialect, ModelEndpoint
from atp.protocol.trace import Usage

NOOP: dict[str, JsonValue] = {"kind": "noop"}
ORACLE: dict[str, JsonValue] = {
    "kind": "oracle",
    "expected": {"actions": [{"name": "look", "arguments": {"at": "sky"}}], "outputs": ["blue"]},
}
TOOLS: list[ChatCompletionToolParam] = [
    {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}},
    {"type": "function", "function": {"name": "wait", "parameters": {"type": "object"}}},
]
ASKED: list[ChatCompletionMessageParam] = [{"role": "user", "content": "what colour is the sky?"}]
STEP = """\
steps:
  - text: I look, and I wait.
    reasoning: The sky has to be seen to be named.
    tool_calls:
      - {id: call_a, name: look, arguments: {at: "sky over Łódź"}}
      - {id: call_b, name: wait, arguments: {hours: 2}}
    usage: {input_tokens: 100, output_tokens: 20, cache_read_tokens: 64, reasoning_tokens: 8}
"""
STATED = Usage(input_tokens=100, output_tokens=20, cache_read_tokens=64, reasoning_tokens=8)


def script(text: str) -> dict[str, Any]:
    return {"kind": "script", "script": Script.from_yaml(text, "s").model_dump(mode="json"), "task_id": "t"}


pytestmark = pytest.mark.asyncio(loop_scope="module")
_numbers = itertools.count()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def endpoint(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ScriptedEndpoint]:
    """One endpoint for all tests that leave it alive; each has a session of its own."""
    async with await ScriptedEndpoint.start(tmp_path_factory.mktemp("wire") / "wire.jsonl") as started:
        yield started


def fresh() -> str:
    """The id of a session that no other test uses."""
    return f"run-{next(_numbers)}"


def logged(endpoint: ScriptedEndpoint, session: ScriptedSession) -> list[dict[str, Any]]:
    """What the log holds of a session."""
    return [record for record in read_wire_log(endpoint.log_path) if record["session"] == session.id]


def reached(session: ScriptedSession) -> ModelEndpoint:
    return session.model_endpoint(Dialect.OPENAI_CHAT, "scripted-model")


def client(session: ScriptedSession, key: str | None = None) -> openai.AsyncOpenAI:
    model = reached(session)
    return openai.AsyncOpenAI(
        base_url=model.base_url, api_key=key or model.api_key.get_secret_value(), max_retries=0
    )


async def ask(session: ScriptedSession) -> str:
    """One plain question; the id of the reply."""
    async with client(session) as asking:
        return (await asking.chat.completions.create(model="m", messages=ASKED)).id


async def test_the_openai_client_reads_a_whole_reply(endpoint: ScriptedEndpoint) -> None:
    session = await endpoint.open(fresh(), policy=script(STEP))
    async with client(session) as asking:
        reply = await asking.chat.completions.create(model="any-name", messages=ASKED, tools=TOOLS)
    message, usage = reply.choices[0].message, reply.usage
    assert reply.model == "any-name"
    assert message.content == "I look, and I wait."
    assert message.to_dict()["reasoning_content"] == "The sky has to be seen to be named."
    assert [call.id for call in message.tool_calls or ()] == ["call_a", "call_b"]
    assert reply.choices[0].finish_reason == "tool_calls"
    assert usage is not None
    assert usage.to_dict() == {
        "prompt_tokens": 100,
        "completion_tokens": 20,
        "total_tokens": 120,
        "prompt_tokens_details": {"cached_tokens": 64},
        "completion_tokens_details": {"reasoning_tokens": 8},
    }


async def test_the_openai_client_puts_a_streamed_reply_together(endpoint: ScriptedEndpoint) -> None:
    session = await endpoint.open(fresh(), policy=script(STEP))
    reasoning = ""
    async with (
        client(session) as asking,
        asking.chat.completions.stream(
            model="m", messages=ASKED, tools=TOOLS, stream_options={"include_usage": True}
        ) as stream,
    ):
        async for event in stream:
            if event.type == "chunk":
                for choice in event.chunk.choices:
                    reasoning += choice.delta.to_dict().get("reasoning_content") or ""  # type: ignore[operator]
        reply = await stream.get_final_completion()
    message = reply.choices[0].message
    assert message.content == "I look, and I wait."
    assert reasoning == "The sky has to be seen to be named."
    assert [(c.id, c.function.name, c.function.arguments) for c in message.tool_calls or ()] == [
        ("call_a", "look", '{"at":"sky over Łódź"}'),
        ("call_b", "wait", '{"hours":2}'),
    ]
    assert reply.usage is not None
    assert reply.usage.total_tokens == 120


async def test_the_oracle_calls_and_then_answers(endpoint: ScriptedEndpoint) -> None:
    session = await endpoint.open(fresh(), policy=ORACLE)
    messages = list(ASKED)
    async with client(session) as asking:
        first = await asking.chat.completions.create(model="m", messages=messages, tools=TOOLS)
        call = (first.choices[0].message.tool_calls or [])[0]
        messages += [
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": call.id, "type": "function", "function": {"name": "look", "arguments": "{}"}}
                ],
            },
            {"role": "tool", "tool_call_id": call.id, "content": "it is blue"},
        ]
        second = await asking.chat.completions.create(model="m", messages=messages, tools=TOOLS)
    assert second.choices[0].message.content == "blue"


async def test_expected_arguments_reach_the_wire_exactly(endpoint: ScriptedEndpoint) -> None:
    arguments: JsonValue = {"big": 2**70, "float": 2.0, "text": "Łódź \u2028"}
    expected: JsonValue = {"actions": [{"name": "look", "arguments": arguments}]}
    session = await endpoint.open(fresh(), policy={"kind": "oracle", "expected": expected})
    async with client(session) as asking:
        reply = await asking.chat.completions.create(model="m", messages=ASKED, tools=TOOLS)
    calls = reply.choices[0].message.tool_calls or []
    assert [call.function.arguments for call in calls if call.type == "function"] == [
        '{"big":1180591620717411303424,"float":2.0,"text":"Łódź \u2028"}'
    ]


async def test_a_retry_gets_the_same_content_under_a_new_id(endpoint: ScriptedEndpoint) -> None:
    session = await endpoint.open(fresh(), policy=ORACLE)
    async with client(session) as asking:
        first = await asking.chat.completions.create(model="m", messages=ASKED, tools=TOOLS)
        again = await asking.chat.completions.create(model="m", messages=ASKED, tools=TOOLS)
    assert first.id != again.id
    assert first.choices == again.choices
    assert first.usage == again.usage


async def test_closing_a_session_tells_what_it_answered_in_order(endpoint: ScriptedEndpoint) -> None:
    session = await endpoint.open(fresh(), policy=script(STEP), actor="user_simulator")
    reply_id = await ask(session)
    async with client(session) as asking:
        with pytest.raises(openai.BadRequestError) as caught:
            await asking.chat.completions.create(
                model="m", messages=[*ASKED, {"role": "assistant", "content": "a"}]
            )
    assert caught.value.code == "script_exhausted"
    answered, refused = await session.close()
    assert (answered.response_id, answered.usage, answered.http_status) == (reply_id, STATED, 200)
    assert answered.tool_calls == (("call_a", "look"), ("call_b", "wait"))
    assert (answered.finish_reason, answered.model, answered.actor) == ("tool_calls", "m", "user_simulator")
    assert (refused.answered, refused.http_status, refused.usage) == (False, 400, Usage())


async def test_the_log_holds_the_request_and_no_key(endpoint: ScriptedEndpoint) -> None:
    session = await endpoint.open(fresh(), policy=NOOP)
    reply_id = await ask(session)
    key = reached(session).api_key.get_secret_value()
    (record,) = logged(endpoint, session)
    assert record["body"] == {"messages": ASKED, "model": "m"}
    assert (record["session"], record["response_id"], record["status"]) == (session.id, reply_id, 200)
    assert record["start"] <= record["end"]
    assert record["stream"] is False
    assert key not in endpoint.log_path.read_text(encoding="utf-8")


async def test_the_log_is_written_before_the_reply_ends(endpoint: ScriptedEndpoint) -> None:
    session = await endpoint.open(fresh(), policy=NOOP)
    for stream in (False, True):
        body = {"model": "m", "messages": ASKED, "stream": stream}
        async with (
            aiohttp.ClientSession() as http,
            http.post(*_post(session), json=body, **_auth(session)) as r,
        ):
            raw = await r.read()
        assert raw
        assert logged(endpoint, session)[-1]["stream"] is stream


def _post(session: ScriptedSession, rest: str = "chat/completions") -> tuple[str]:
    return (f"{reached(session).base_url}/{rest}",)


def _auth(session: ScriptedSession) -> dict[str, Any]:
    return {"headers": {"authorization": f"Bearer {reached(session).api_key.get_secret_value()}"}}


async def test_a_wrong_key_is_refused_and_logged(endpoint: ScriptedEndpoint) -> None:
    one = await endpoint.open(fresh(), policy=NOOP)
    other = await endpoint.open(fresh(), policy=NOOP)
    foreign_key = reached(other).api_key.get_secret_value()
    for key in ("wrong", foreign_key):
        async with client(one, key) as asking:
            with pytest.raises(openai.AuthenticationError) as caught:
                await asking.chat.completions.create(model="m", messages=ASKED)
            assert caught.value.code == "invalid_api_key"
    assert [call.http_status for call in await one.close()] == [401, 401]
    assert await other.close() == []
    assert "body" not in logged(endpoint, one)[0]


async def test_a_missing_or_undecodable_key_is_refused(endpoint: ScriptedEndpoint) -> None:
    session = await endpoint.open(fresh(), policy=NOOP)
    async with aiohttp.ClientSession() as http:
        for headers in ({}, {"authorization": "Bearer clé"}, {"authorization": "Basic eA=="}):
            async with http.post(*_post(session), json={}, headers=headers) as answer:
                assert answer.status == 401
                assert (await answer.json())["error"]["code"] == "invalid_api_key"


@pytest.mark.parametrize("path", ["/", "/v1/models", "/s/absent/v1/chat/completions", "/s/{}/v1/embeddings"])
async def test_an_unknown_path_is_refused_and_logged(endpoint: ScriptedEndpoint, path: str) -> None:
    session = await endpoint.open(fresh(), policy=NOOP)
    path = path.format(session.id)
    url = f"http://127.0.0.1:{endpoint.port}{path}"
    async with aiohttp.ClientSession() as http, http.post(url, json={}, **_auth(session)) as answer:
        assert answer.status == 404
        assert (await answer.json())["error"]["code"] == "unknown_path"
    assert 404 in {r["status"] for r in read_wire_log(endpoint.log_path) if r["path"] == path}


async def test_the_models_can_be_listed(endpoint: ScriptedEndpoint) -> None:
    session = await endpoint.open(fresh(), policy=NOOP)
    async with client(session) as asking:
        assert [model.id async for model in asking.models.list()] == ["noop"]
    assert await session.close() == []


async def test_completions_are_asked_for_by_post_alone(endpoint: ScriptedEndpoint) -> None:
    session = await endpoint.open(fresh(), policy=NOOP)
    async with aiohttp.ClientSession() as http, http.get(*_post(session), **_auth(session)) as answer:
        assert answer.status == 405


async def test_a_body_that_is_not_json_is_refused_and_kept_as_text(endpoint: ScriptedEndpoint) -> None:
    session = await endpoint.open(fresh(), policy=NOOP)
    async with (
        aiohttp.ClientSession() as http,
        http.post(*_post(session), data=b'{"model"\n\xff', **_auth(session)) as answer,
    ):
        assert answer.status == 400
    (record,) = logged(endpoint, session)
    assert record["body"] == '{"model"\n\\xff'


async def test_a_body_on_several_lines_stays_one_line_of_the_log(endpoint: ScriptedEndpoint) -> None:
    session = await endpoint.open(fresh(), policy=NOOP)
    data = b'{"model": "m",\r\n "messages": [{"role": "user", "content": "a"}]}'
    async with (
        aiohttp.ClientSession() as http,
        http.post(*_post(session), data=data, **_auth(session)) as answer,
    ):
        assert answer.status == 200
    (record,) = logged(endpoint, session)
    assert record["body"]["model"] == "m"


async def test_a_large_body_is_read_whole(endpoint: ScriptedEndpoint) -> None:
    session = await endpoint.open(fresh(), policy=NOOP)
    text = "x" * (5 << 20)
    async with client(session) as asking:
        reply = await asking.chat.completions.create(model="m", messages=[{"role": "user", "content": text}])
    assert reply.usage is not None
    # A quarter of the characters, as `counted_usage` says.
    assert reply.usage.prompt_tokens == len(text) // 4


async def test_sixty_four_requests_at_once_are_answered_each_by_its_session(
    endpoint: ScriptedEndpoint,
) -> None:
    sessions = [
        await endpoint.open(fresh(), policy=script(f"steps: [{{text: reply {n}}}]")) for n in range(64)
    ]
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=64)) as http:

        async def answer(session: ScriptedSession) -> str:
            body = {"model": "m", "messages": ASKED}
            async with http.post(*_post(session), json=body, **_auth(session)) as response:
                text: str = (await response.json())["choices"][0]["message"]["content"]
                return text

        texts = await asyncio.gather(*map(answer, sessions))
    assert texts == [f"reply {n}" for n in range(64)]
    for session in sessions:
        (record,) = await session.close()
        assert record.answered


async def test_a_client_that_goes_away_is_recorded_as_cut(endpoint: ScriptedEndpoint) -> None:
    session = await endpoint.open(fresh(), policy=NOOP)
    reader, writer = await asyncio.open_connection("127.0.0.1", endpoint.port)
    key = reached(session).api_key.get_secret_value()
    head = (
        f"POST /s/{session.id}/v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\n"
        "content-length: 100\r\n\r\n{"
    )
    writer.write(head.encode())
    await writer.drain()
    await ask(session)
    writer.close()
    await writer.wait_closed()
    records = await session.close()
    assert sorted(record.answered for record in records) == [False, True]
    assert {record["error"] for record in logged(endpoint, session)} == {None, "cut"}


async def test_a_closed_session_answers_no_more(endpoint: ScriptedEndpoint) -> None:
    session = await endpoint.open(fresh(), policy=NOOP)
    await session.close()
    async with client(session) as asking:
        with pytest.raises(openai.NotFoundError):
            await asking.chat.completions.create(model="m", messages=ASKED)
    with pytest.raises(InvalidInput, match="not open"):
        await session.close()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"policy": {"kind": "prophet"}}, "no policy"),
        ({"policy": NOOP, "idiom": "plane"}, "nearest: plain"),
        ({"policy": script("tasks: [{match: a, steps: [{text: x}]}]")}, "no steps for task 't'"),
    ],
)
async def test_what_cannot_be_opened_is_refused_by_name(
    endpoint: ScriptedEndpoint, arguments: dict[str, Any], says: str
) -> None:
    with pytest.raises(InvalidInput, match=says):
        await endpoint.open("run-1", **arguments)
    # The endpoint goes on.
    assert await ask(await endpoint.open(fresh(), policy=NOOP))


@pytest.mark.parametrize("session_id", ["", "../x", "a/b", "a b", "-a", "a" * 201])
async def test_a_session_id_that_is_no_path_segment_is_refused(
    endpoint: ScriptedEndpoint, session_id: str
) -> None:
    with pytest.raises(InvalidInput, match="session id"):
        await endpoint.open(session_id, policy=NOOP)


async def test_a_session_id_is_open_once(endpoint: ScriptedEndpoint) -> None:
    session = await endpoint.open(fresh(), policy=NOOP)
    with pytest.raises(InvalidInput, match="open already"):
        await endpoint.open(session.id, policy=NOOP)


async def test_ctrl_c_is_left_to_the_engine(endpoint: ScriptedEndpoint) -> None:
    os.kill(endpoint.pid, signal.SIGINT)
    session = await endpoint.open(fresh(), policy={"kind": "noop"})
    async with client(session) as asking:
        reply = await asking.chat.completions.create(model="m", messages=ASKED)
    assert reply.choices[0].message.content == NOOP_SENTENCE


async def test_stopping_leaves_no_process_and_a_log_that_can_be_continued(tmp_path: Path) -> None:
    log = tmp_path / "wire.jsonl"
    for _ in range(2):
        async with await ScriptedEndpoint.start(log) as endpoint:
            pid = endpoint.pid
            await ask(await endpoint.open(fresh(), policy=NOOP))
        assert not psutil.pid_exists(pid)
    assert len([model_call_of(record) for record in read_wire_log(log)]) == 2


async def test_a_dead_endpoint_is_an_infrastructure_error_that_names_its_log(tmp_path: Path) -> None:
    endpoint = await ScriptedEndpoint.start(tmp_path / "wire.jsonl")
    session = await endpoint.open(fresh(), policy=NOOP)
    os.kill(endpoint.pid, signal.SIGKILL)
    with pytest.raises(InfrastructureError, match=r"exit code -9.*wire\.jsonl"):
        await session.close()
    with pytest.raises(InfrastructureError, match=r"wire\.jsonl"):
        await endpoint.open(fresh(), policy=NOOP)
    await endpoint.stop()


async def test_a_log_that_cannot_be_opened_is_said_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "wire.jsonl").mkdir()
    with pytest.raises(InfrastructureError, match="Is a directory"):
        await ScriptedEndpoint.start(tmp_path / "wire.jsonl")
    with pytest.raises(InfrastructureError, match="does not start"):
        await ScriptedEndpoint.start(tmp_path / "absent" / "wire.jsonl")


async def test_nothing_is_answered_that_the_log_cannot_hold(tmp_path: Path) -> None:
    # /dev/full takes no byte: what a full disk does (full(4)).
    (tmp_path / "wire.jsonl").symlink_to("/dev/full")
    async with await ScriptedEndpoint.start(tmp_path / "wire.jsonl") as endpoint:
        session = await endpoint.open(fresh(), policy=NOOP)
        with pytest.raises(openai.APIConnectionError):
            await ask(session)
        with pytest.raises(InfrastructureError, match="No space left"):
            await session.close()

"""The Gemini dialect over plain HTTP: keys, paths, streams, and faults in its forms."""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from atp.models.scripted import Script, ScriptedEndpoint, ScriptedSession
from atp.protocol.model import Dialect

pytestmark = pytest.mark.asyncio(loop_scope="module")
_numbers = itertools.count()

STEP = """\
steps:
  - text: I look.
    tool_calls:
      - {id: call_a, name: look, arguments: {at: "the sky"}}
      - {id: call_b, name: look, arguments: {at: "the sea"}}
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def endpoint(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ScriptedEndpoint]:
    """One endpoint for all tests; each has a session of its own."""
    async with await ScriptedEndpoint.start(tmp_path_factory.mktemp("wire") / "wire.jsonl") as started:
        yield started


async def opened(endpoint: ScriptedEndpoint, faults: str = "") -> ScriptedSession:
    """A session whose first step has these faults."""
    script = Script.from_yaml(STEP + (f"    faults: [{faults}]\n" if faults else ""), "s")
    policy: dict[str, Any] = {"kind": "script", "script": script.model_dump(mode="json"), "task_id": "t"}
    return await endpoint.open(f"run-g{next(_numbers)}", policy=policy)


async def got(session: ScriptedSession, *, stream: bool = False, key: str | None = None) -> tuple[int, bytes]:
    """The status and all bytes of an answer; of one that breaks off, those that came."""
    model = session.model_endpoint(Dialect.GEMINI, "m")
    method = "streamGenerateContent?alt=sse" if stream else "generateContent"
    headers = {"x-goog-api-key": model.api_key.get_secret_value() if key is None else key}
    content = bytearray()
    async with (
        aiohttp.ClientSession() as client,
        client.post(
            f"{model.base_url}/v1beta/models/m:{method}",
            json={"contents": [{"role": "user", "parts": [{"text": "What is there?"}]}]},
            headers=headers,
        ) as response,
    ):
        try:
            async for chunk in response.content.iter_any():
                content += chunk
        except aiohttp.ClientPayloadError:
            pass
        return response.status, bytes(content)


def events(content: bytes) -> list[dict[str, Any]]:
    return [json.loads(line[6:]) for line in content.decode().split("\r\n\r\n") if line]


async def test_a_reply_comes_whole_or_as_events_as_the_method_says(endpoint: ScriptedEndpoint) -> None:
    session = await opened(endpoint)
    status, whole = await got(session)
    _, streamed = await got(session, stream=True)
    assert status == 200
    [text, *called] = json.loads(whole)["candidates"][0]["content"]["parts"]
    assert text == {"text": "I look."}
    parts = [
        part
        for event in events(streamed)
        for part in event["candidates"][0]["content"].get("parts", ())
        if "functionCall" in part
    ]
    assert parts == called
    assert [part["functionCall"]["id"] for part in parts] == ["call_a", "call_b"]


async def test_the_key_is_the_one_of_googles_header(endpoint: ScriptedEndpoint) -> None:
    session = await opened(endpoint)
    status, body = await got(session, key="another")
    assert status == 401
    assert json.loads(body)["error"]["status"] == "UNAUTHENTICATED"
    [record] = await session.close()
    assert (record.http_status, record.response_id) == (401, None)


async def test_the_log_has_what_was_said(endpoint: ScriptedEndpoint) -> None:
    session = await opened(endpoint)
    _, body = await got(session)
    [record] = await session.close()
    assert record.response_id == json.loads(body)["responseId"]
    assert record.tool_calls == (("call_a", "look"), ("call_b", "look"))
    assert (record.finish_reason, record.model) == ("tool_calls", "m")


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_a_list_of_candidates_can_be_empty(endpoint: ScriptedEndpoint, stream: bool) -> None:
    _, body = await got(await opened(endpoint, "{reply: empty_choices}"), stream=stream)
    answers = events(body) if stream else [json.loads(body)]
    assert [answer["candidates"] for answer in answers] == [[]] * len(answers)
    assert answers[-1]["usageMetadata"]


async def test_an_error_can_come_within_a_stream(endpoint: ScriptedEndpoint) -> None:
    _, body = await got(await opened(endpoint, "{reply: error_event}"), stream=True)
    *_, last = events(body)
    assert (last["error"]["code"], last["error"]["status"]) == (500, "INTERNAL")


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_an_answer_can_break_off_within_arguments(endpoint: ScriptedEndpoint, stream: bool) -> None:
    _, body = await got(await opened(endpoint, "{cut: in_arguments}"), stream=stream)
    assert body.endswith(b'"args":{"at')


async def test_an_event_can_come_twice(endpoint: ScriptedEndpoint) -> None:
    _, body = await got(await opened(endpoint, "{reply: duplicate_chunk}"), stream=True)
    first, second, *_ = events(body)
    assert first == second


@pytest.mark.parametrize("fault", ["mixed_deltas", "no_end"])
async def test_a_fault_that_gemini_has_no_form_for_is_an_error_of_its_own(
    endpoint: ScriptedEndpoint, fault: str
) -> None:
    status, body = await got(await opened(endpoint, f"{{reply: {fault}}}"), stream=True)
    assert status == 400
    assert json.loads(body)["error"]["details"][0]["reason"] == "fault_not_expressible"

"""The Anthropic dialect as Anthropic's own client meets it, over real HTTP."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from adapters.benchmarks.agentdojo.card import CARD
from atp.engine import environments
from atp.models.scripted import Script, ScriptedEndpoint, ScriptedSession
from atp.models.scripted.wire_log import read_wire_log
from atp.protocol.model import Dialect, ModelEndpoint

pytestmark = pytest.mark.asyncio(loop_scope="module")
_numbers = itertools.count()
WAYS = pytest.mark.parametrize("how", ["create", "stream"])

TWO_CALLS = """\
steps:
  - reasoning: It has to be looked up, in more than thirty-two characters.
    text: I look.
    tool_calls:
      - {id: call_a, name: look, arguments: {at: "the sky over the sea", deep: {n: 2.0}}}
      - {id: call_b, name: look, arguments: {}}
    usage: {input_tokens: 120, output_tokens: 40, cache_read_tokens: 64, cache_write_tokens: 16,
            reasoning_tokens: 12}
"""
LOOK = {
    "name": "look",
    "description": "Look somewhere.",
    "input_schema": {"type": "object", "properties": {"at": {"type": "string"}}},
    "cache_control": {"type": "ephemeral"},
}
ASKED: dict[str, Any] = {"role": "user", "content": "What is there?"}


@dataclass(frozen=True)
class AnthropicClient:
    """Anthropic's client, in a process of the environment that has it."""

    process: asyncio.subprocess.Process

    async def __call__(
        self,
        session: ScriptedSession,
        how: str = "create",
        *,
        client: Mapping[str, Any] | None = None,
        **request: Any,
    ) -> dict[str, Any]:
        """What comes of one request; see `anthropic_client.py`."""
        model = endpoint_of(session)
        given = client or {"api_key": model.api_key.get_secret_value()}
        most = {} if how == "count" else {"max_tokens": 100}
        asked = {
            "client": {"base_url": model.base_url, "max_retries": 0, "timeout": 20.0, **given},
            "how": how,
            "request": {"model": model.model, "messages": [ASKED], **most, **request},
        }
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(asked).encode() + b"\n")
        await self.process.stdin.drain()
        came: dict[str, Any] = json.loads(await self.process.stdout.readline())
        return came


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ask() -> AsyncIterator[AnthropicClient]:
    """AgentDojo's environment has the SDKs of three makers, Anthropic's among them."""
    python = (await environments.create(CARD)).python
    process = await asyncio.create_subprocess_exec(
        python,
        "-P",
        Path(__file__).with_name("anthropic_client.py"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=1 << 20,
    )
    yield AnthropicClient(process)
    assert process.stdin is not None
    process.stdin.close()
    await process.wait()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def endpoint(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ScriptedEndpoint]:
    """One endpoint for all tests; each has a session of its own."""
    async with await ScriptedEndpoint.start(tmp_path_factory.mktemp("wire") / "wire.jsonl") as started:
        yield started


def endpoint_of(session: ScriptedSession) -> ModelEndpoint:
    return session.model_endpoint(Dialect.ANTHROPIC_MESSAGES, "claude-scripted")


async def opened(endpoint: ScriptedEndpoint, steps: str, faults: str = "") -> ScriptedSession:
    """A session whose last step has these faults."""
    script = Script.from_yaml(steps + (f"    faults: [{faults}]\n" if faults else ""), "s")
    policy: dict[str, Any] = {"kind": "script", "script": script.model_dump(mode="json"), "task_id": "t"}
    return await endpoint.open(f"run-a{next(_numbers)}", policy=policy)


def logged(endpoint: ScriptedEndpoint, session: ScriptedSession) -> list[dict[str, Any]]:
    return [record for record in read_wire_log(endpoint.log_path) if record["session"] == session.id]


@WAYS
async def test_the_client_reads_all_that_a_step_says(
    endpoint: ScriptedEndpoint, ask: AnthropicClient, how: str
) -> None:
    session = await opened(endpoint, TWO_CALLS)
    came = await ask(session, how)
    message = came["message"]
    thinking, text, *calls = message["content"]
    assert thinking["thinking"] == "It has to be looked up, in more than thirty-two characters."
    assert thinking["signature"]
    assert text["text"] == "I look."
    assert [(call["id"], call["name"], call["input"]) for call in calls] == [
        ("call_a", "look", {"at": "the sky over the sea", "deep": {"n": 2.0}}),
        ("call_b", "look", {}),
    ]
    assert (message["role"], message["model"], message["stop_reason"]) == (
        "assistant",
        "claude-scripted",
        "tool_use",
    )
    [record] = logged(endpoint, session)
    assert (record["response_id"], record["request_id"]) == (message["id"], came["request_id"])


@WAYS
async def test_tokens_of_the_cache_are_apart_from_those_of_the_input(
    endpoint: ScriptedEndpoint, ask: AnthropicClient, how: str
) -> None:
    session = await opened(endpoint, TWO_CALLS)
    usage = (await ask(session, how))["message"]["usage"]
    # "Total input tokens in a request is the summation" of the three (`anthropic/types/message.py`).
    counts = [
        usage[name] for name in ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    ]
    assert (counts, sum(counts)) == ([40, 16, 64], 120)
    assert (usage["output_tokens"], usage["output_tokens_details"]["thinking_tokens"]) == (40, 12)
    [record] = await session.close()
    assert (record.usage.input_tokens, record.usage.cache_write_tokens) == (120, 16)


@WAYS
async def test_the_client_carries_a_reply_with_its_thinking_and_results_back(
    endpoint: ScriptedEndpoint, ask: AnthropicClient, how: str
) -> None:
    session = await opened(endpoint, TWO_CALLS + "  - text: The sky is blue.\n")
    system = [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]
    reply = (await ask(session, how, system=system, tools=[LOOK]))["message"]
    results = [
        {"type": "tool_result", "tool_use_id": "call_a", "content": [{"type": "text", "text": "blue"}]},
        {"type": "tool_result", "tool_use_id": "call_b", "content": "where?", "is_error": True},
    ]
    messages = [
        ASKED,
        {"role": "assistant", "content": reply["content"]},
        {"role": "user", "content": results},
    ]
    last = (await ask(session, how, system=system, tools=[LOOK], messages=messages))["message"]
    assert [block["text"] for block in last["content"]] == ["The sky is blue."]
    assert last["stop_reason"] == "end_turn"
    _, second = logged(endpoint, session)
    assert (second["held"], second["pasted"]) == ([reply["id"]], [])


async def test_thinking_that_comes_back_changed_is_refused(
    endpoint: ScriptedEndpoint, ask: AnthropicClient
) -> None:
    session = await opened(endpoint, TWO_CALLS)
    thinking = (await ask(session))["message"]["content"][0]
    changed = {"role": "assistant", "content": [{**thinking, "thinking": "Something else."}]}
    came = await ask(session, messages=[ASKED, changed, ASKED])
    assert (came["error"], came["type"]) == ("BadRequestError", "invalid_request_error")
    assert "messages[1].content[0].signature" in came["text"]


async def test_the_client_sees_a_stream_in_the_order_of_the_reference(
    endpoint: ScriptedEndpoint, ask: AnthropicClient
) -> None:
    events = (await ask(await opened(endpoint, TWO_CALLS), "events"))["events"]
    kinds = [event["type"] for event in events]
    # The client keeps pings to itself.
    assert (kinds[0], kinds[-2:]) == ("message_start", ["message_delta", "message_stop"])
    blocks = [
        [event["type"].removeprefix("content_block_") for event in events if event.get("index") == index]
        for index in range(4)
    ]
    assert [(kind[0], set(kind[1:-1]), kind[-1]) for kind in blocks] == [("start", {"delta"}, "stop")] * 4
    assert events[0]["message"]["usage"]["output_tokens"] == 1
    assert events[-2]["usage"]["output_tokens"] == 40


@pytest.mark.parametrize("header", ["api_key", "auth_token", "x-api-key"])
async def test_a_key_is_taken_as_bearer_and_as_x_api_key(
    endpoint: ScriptedEndpoint, ask: AnthropicClient, header: str
) -> None:
    session = await opened(endpoint, "steps:\n  - text: Yes.\n")
    for key, status in ((endpoint_of(session).api_key.get_secret_value(), None), ("another", 401)):
        given: dict[str, Any] = {header: key}
        if header == "x-api-key":
            given = {"auth_token": "", "default_headers": {"x-api-key": key, "authorization": ""}}
        came = await ask(session, client=given)
        assert came.get("status") == status, came
    assert (came["error"], came["type"], came["code"]) == (
        "AuthenticationError",
        "authentication_error",
        "invalid_api_key",
    )


async def test_a_request_names_the_version_of_the_api(endpoint: ScriptedEndpoint) -> None:
    session = await opened(endpoint, "steps:\n  - text: Yes.\n")
    model = endpoint_of(session)
    headers = {"x-api-key": model.api_key.get_secret_value()}
    body = {"model": "m", "max_tokens": 5, "messages": [ASKED]}
    async with aiohttp.ClientSession(headers=headers) as http:
        async with http.post(f"{model.base_url}/v1/messages", json=body) as response:
            assert response.status == 400
            assert "anthropic-version" in (await response.json())["error"]["message"]
        versioned = {"anthropic-version": "2023-06-01"}
        async with http.post(f"{model.base_url}/v1/messages", json=body, headers=versioned) as response:
            assert response.status == 200
            assert "x-request-id" not in response.headers


@pytest.mark.parametrize(
    ("status", "error", "kind"),
    [
        (400, "BadRequestError", "invalid_request_error"),
        (402, "PaymentRequiredError", "billing_error"),
        (403, "PermissionDeniedError", "permission_error"),
        (404, "NotFoundError", "not_found_error"),
        (413, "ContentTooLargeError", "request_too_large"),
        (429, "RateLimitError", "rate_limit_error"),
        (500, "InternalServerError", "api_error"),
        (503, "ServiceUnavailableError", "api_error"),
        (504, "GatewayTimeoutError", "timeout_error"),
        (529, "OverloadedError", "overloaded_error"),
    ],
)
async def test_an_error_is_of_the_clients_class_and_has_the_scripts_code(
    endpoint: ScriptedEndpoint, ask: AnthropicClient, status: int, error: str, kind: str
) -> None:
    steps = "steps:\n  - text: At last.\n"
    session = await opened(endpoint, steps, f"{{status: {status}, code: as_told, message: Not now.}}")
    came = await ask(session)
    assert (came["error"], came["status"], came["type"], came["code"]) == (error, status, kind, "as_told")
    assert "Not now." in came["text"]
    assert came["request_id"] == logged(endpoint, session)[0]["request_id"]


@WAYS
async def test_an_overloaded_server_is_asked_again(
    endpoint: ScriptedEndpoint, ask: AnthropicClient, how: str
) -> None:
    fault = "{status: 529, retry_after: 0.01, times: 2}"
    session = await opened(endpoint, "steps:\n  - text: At last.\n", fault)
    key = endpoint_of(session).api_key.get_secret_value()
    came = await ask(session, how, client={"api_key": key, "max_retries": 2})
    assert came["message"]["content"][0]["text"] == "At last."
    assert [record["status"] for record in logged(endpoint, session)] == [529, 529, 200]


@WAYS
@pytest.mark.parametrize(
    ("finish", "stop_reason"),
    [
        ("stop", "end_turn"),
        ("tool_calls", "tool_use"),
        ("length", "max_tokens"),
        ("content_filter", "refusal"),
    ],
)
async def test_each_finish_reason_has_its_stop_reason(
    endpoint: ScriptedEndpoint, ask: AnthropicClient, how: str, finish: str, stop_reason: str
) -> None:
    session = await opened(endpoint, f"steps:\n  - {{text: x, finish_reason: {finish}}}\n")
    message = (await ask(session, how))["message"]
    assert message["stop_reason"] == stop_reason
    assert (message.get("stop_details") is not None) is (finish == "content_filter")
    [record] = await session.close()
    assert record.finish_reason == finish


async def test_malformed_arguments_go_out_in_a_stream_alone(
    endpoint: ScriptedEndpoint, ask: AnthropicClient
) -> None:
    step = 'steps:\n  - tool_calls: [{id: c, name: look, arguments_text: \'{"at": "the\'}]\n'
    session = await opened(endpoint, step)
    events = (await ask(session, "events"))["events"]
    assert "".join(e["delta"].get("partial_json", "") for e in events if "delta" in e) == '{"at": "the'
    assert (await ask(session))["code"] == "not_expressible"


async def test_a_path_that_is_not_served_is_refused_in_the_clients_words(
    endpoint: ScriptedEndpoint, ask: AnthropicClient
) -> None:
    came = await ask(await opened(endpoint, "steps:\n  - text: x\n"), "count")
    assert (came["error"], came["type"], came["code"]) == ("NotFoundError", "not_found_error", "unknown_path")


@pytest.mark.parametrize("fault", ["mixed_deltas", "no_end", "trailing_garbage"])
async def test_a_stream_whose_words_all_came_is_read_to_its_end(
    endpoint: ScriptedEndpoint, ask: AnthropicClient, fault: str
) -> None:
    session = await opened(endpoint, TWO_CALLS, f"{{reply: {fault}}}")
    disturbed, whole = [(await ask(session, "stream"))["message"] for _ in range(2)]
    assert disturbed["content"] == whole["content"]
    assert disturbed["usage"] == whole["usage"]
    assert [record["response_id"] for record in logged(endpoint, session)] == [disturbed["id"], whole["id"]]


async def test_an_error_within_a_stream_is_raised_by_the_client(
    endpoint: ScriptedEndpoint, ask: AnthropicClient
) -> None:
    session = await opened(endpoint, TWO_CALLS, "{reply: error_event}")
    came = await ask(session, "stream")
    assert (came["type"], came["code"]) == ("api_error", "server_error")
    assert "had an error while it answered" in came["text"]


@WAYS
@pytest.mark.parametrize("cut", ["before_head", "half", "in_arguments"])
async def test_a_connection_that_breaks_is_the_clients_error(
    endpoint: ScriptedEndpoint, ask: AnthropicClient, how: str, cut: str
) -> None:
    session = await opened(endpoint, TWO_CALLS, f"{{cut: {cut}}}")
    came = await ask(session, how)
    assert "message" not in came
    assert (await ask(session, how))["message"]["content"]
    assert [record["error"] for record in logged(endpoint, session)] == ["cut", None]


@WAYS
async def test_a_message_can_say_nothing(endpoint: ScriptedEndpoint, ask: AnthropicClient, how: str) -> None:
    session = await opened(endpoint, TWO_CALLS, "{reply: empty_message}, {reply: empty_choices}")
    assert [(await ask(session, how))["message"]["content"] for _ in range(2)] == [[], []]


async def test_the_oracle_calls_what_is_offered_and_speaks_where_no_call_is_allowed(
    endpoint: ScriptedEndpoint, ask: AnthropicClient
) -> None:
    expected = {"actions": [{"name": "look", "arguments": {"at": "the sky"}}], "outputs": ["blue"]}
    policy: dict[str, Any] = {"kind": "oracle", "expected": expected}
    session = await endpoint.open(f"run-a{next(_numbers)}", policy=policy)
    [call] = (await ask(session, tools=[LOOK]))["message"]["content"]
    assert (call["name"], call["input"]) == ("look", {"at": "the sky"})
    [text] = (await ask(session, tools=[LOOK], tool_choice={"type": "none"}))["message"]["content"]
    assert text["text"] == "blue"

"""Faults of a script as clients meet them: a real process, real HTTP, several dialects, streamed and not."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import openai
import pytest
import pytest_asyncio

from atp.models.scripted import Script, ScriptedEndpoint, ScriptedSession
from atp.models.scripted.wire_log import model_call_of, read_wire_log
from atp.protocol.model import Dialect

pytestmark = pytest.mark.asyncio(loop_scope="module")
_numbers = itertools.count()

STEP = """\
steps:
  - text: I look.
    tool_calls:
      - {id: call_a, name: look, arguments: {at: "the sky over the sea"}}
      - {id: call_b, name: look, arguments: {at: "the sea below the sky"}}
"""
ROUTES = {
    Dialect.OPENAI_CHAT: "chat/completions",
    Dialect.OPENAI_RESPONSES: "responses",
    Dialect.ANTHROPIC_MESSAGES: "v1/messages",
}
OPENAI = (Dialect.OPENAI_CHAT, Dialect.OPENAI_RESPONSES)
BOTH = pytest.mark.parametrize("dialect", OPENAI)
EACH = pytest.mark.parametrize("dialect", list(ROUTES))
WAYS = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def endpoint(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ScriptedEndpoint]:
    """One endpoint for all tests; each has a session of its own."""
    async with await ScriptedEndpoint.start(tmp_path_factory.mktemp("wire") / "wire.jsonl") as started:
        yield started


async def opened(endpoint: ScriptedEndpoint, faults: str, step: str = STEP) -> ScriptedSession:
    """A session whose first step has these faults."""
    script = Script.from_yaml(f"{step}    faults: [{faults}]\n", "s")
    policy: dict[str, Any] = {"kind": "script", "script": script.model_dump(mode="json"), "task_id": "t"}
    return await endpoint.open(f"run-f{next(_numbers)}", policy=policy)


def request(dialect: Dialect, stream: bool) -> dict[str, Any]:
    asked = [{"role": "user", "content": "What is there?"}]
    name = "input" if dialect is Dialect.OPENAI_RESPONSES else "messages"
    most = {"max_tokens": 100} if dialect is Dialect.ANTHROPIC_MESSAGES else {}
    return {"model": "m", name: asked, "stream": stream, **most}


class Got:
    """What came of one request over plain HTTP."""

    def __init__(self) -> None:
        self.status: int | None = None
        self.headers: dict[str, str] = {}
        self.body = b""
        self.broken = False

    @property
    def events(self) -> list[Any]:
        """The objects of a stream's whole events."""
        lines = [
            line.removeprefix(b"data: ") for line in self.body.split(b"\n") if line.startswith(b"data: {")
        ]
        return [json.loads(line) for line in lines if line.endswith(b"}")]


async def got(session: ScriptedSession, dialect: Dialect = Dialect.OPENAI_CHAT, stream: bool = False) -> Got:
    model, answer = session.model_endpoint(dialect, "m"), Got()
    headers = {
        "authorization": f"Bearer {model.api_key.get_secret_value()}",
        "anthropic-version": "2023-06-01",
    }
    async with aiohttp.ClientSession() as http:
        try:
            async with http.post(
                f"{model.base_url}/{ROUTES[dialect]}", json=request(dialect, stream), headers=headers
            ) as response:
                answer.status = response.status
                answer.headers = {name.lower(): value for name, value in response.headers.items()}
                async for data in response.content.iter_any():
                    answer.body += data
        except aiohttp.ClientError:
            answer.broken = True
    return answer


def logged(endpoint: ScriptedEndpoint, session: ScriptedSession) -> list[dict[str, Any]]:
    return [record for record in read_wire_log(endpoint.log_path) if record["session"] == session.id]


def client(session: ScriptedSession, dialect: Dialect, retries: int = 0) -> openai.AsyncOpenAI:
    model = session.model_endpoint(dialect, "m")
    return openai.AsyncOpenAI(
        base_url=model.base_url, api_key=model.api_key.get_secret_value(), max_retries=retries
    )


async def asked(session: ScriptedSession, dialect: Dialect, stream: bool, retries: int = 0) -> Any:
    """One request through OpenAI's own client, read to its end."""
    async with client(session, dialect, retries) as asking:
        api: Any = asking.chat.completions if dialect is Dialect.OPENAI_CHAT else asking.responses
        reply = await api.create(**request(dialect, stream))
        return [event async for event in reply] if stream else reply


@BOTH
@WAYS
async def test_an_error_comes_as_often_as_the_script_says_and_then_the_reply(
    endpoint: ScriptedEndpoint, dialect: Dialect, stream: bool
) -> None:
    fault = "{status: 429, code: rate_limit_exceeded, message: Slowly., retry_after: 0.01, times: 2}"
    session = await opened(endpoint, fault)
    with pytest.raises(openai.RateLimitError) as caught:
        await asked(session, dialect, stream)
    assert (caught.value.code, caught.value.response.headers["retry-after"]) == (
        "rate_limit_exceeded",
        "0.01",
    )
    assert "Slowly." in caught.value.message
    assert await asked(session, dialect, stream, retries=1)
    assert [
        (r["status"], r["error"], r["fault"], r["response_id"] is None) for r in logged(endpoint, session)
    ] == [
        (429, "rate_limit_exceeded", "status_429", True),
        (429, "rate_limit_exceeded", "status_429", True),
        (200, None, None, False),
    ]


async def test_an_error_without_retry_after_has_no_such_header(endpoint: ScriptedEndpoint) -> None:
    session = await opened(endpoint, "{status: 503, times: always}")
    for _ in range(3):
        answer = await got(session)
        assert (answer.status, "retry-after" in answer.headers) == (503, False)


async def test_faults_follow_each_other_try_by_try(endpoint: ScriptedEndpoint) -> None:
    session = await opened(endpoint, "{status: 500}, {status: 401, code: invalid_api_key, times: 2}")
    assert [(await got(session)).status for _ in range(4)] == [500, 401, 401, 200]


async def test_a_date_can_stand_in_retry_after(endpoint: ScriptedEndpoint) -> None:
    session = await opened(endpoint, '{status: 429, retry_after: "Wed, 21 Oct 2026 07:28:00 GMT"}')
    assert (await got(session)).headers["retry-after"] == "Wed, 21 Oct 2026 07:28:00 GMT"


@EACH
async def test_a_page_of_another_server_comes_in_place_of_an_answer(
    endpoint: ScriptedEndpoint, dialect: Dialect
) -> None:
    page = "<html>502 Bad Gateway</html>"
    session = await opened(endpoint, f'{{body: "{page}", content_type: text/html}}')
    answer = await got(session, dialect)
    assert (answer.status, answer.body.decode()) == (200, page)
    assert answer.headers["content-type"] == "text/html"
    assert logged(endpoint, session)[0]["error"] == "body"


@EACH
@WAYS
async def test_a_reply_can_come_under_a_wrong_content_type(
    endpoint: ScriptedEndpoint, dialect: Dialect, stream: bool
) -> None:
    answer = await got(await opened(endpoint, "{content_type: text/plain}"), dialect, stream)
    assert answer.headers["content-type"] == "text/plain"
    assert b"call_a" in answer.body


@EACH
@WAYS
@pytest.mark.parametrize("place", ["before_head", "after_head", "half", "in_arguments", "before_end"])
async def test_the_connection_breaks_where_the_script_says(
    endpoint: ScriptedEndpoint, dialect: Dialect, stream: bool, place: str
) -> None:
    session = await opened(endpoint, f"{{cut: {place}}}")
    answer = await got(session, dialect, stream)
    whole = await got(session, dialect, stream)
    assert (answer.broken, whole.broken) == (True, False)
    assert answer.status == (None if place == "before_head" else 200)
    shares = {"before_head": (0, 0), "after_head": (0, 0), "half": (0.2, 0.8), "before_end": (0.5, 0.999)}
    low, high = shares.get(place, (0.05, 0.95))
    assert low <= len(answer.body) / len(whole.body) <= high
    if place == "in_arguments":
        assert b"call_a" in answer.body
        assert b"call_b" not in answer.body
        assert b"over the sea" not in answer.body
    cut, reply = logged(endpoint, session)
    assert (cut["error"], cut["fault"], cut["response_id"]) == ("cut", f"cut_{place}", None)
    assert cut["status"] == answer.status
    assert reply["fault"] is None


@EACH
async def test_an_answer_that_stops_ends_with_its_client(
    endpoint: ScriptedEndpoint, dialect: Dialect
) -> None:
    session = await opened(endpoint, "{hang: before_head}, {hang: half}")
    for stream in (False, True):
        with pytest.raises(asyncio.TimeoutError):
            async with asyncio.timeout(0.3):
                await got(session, dialect, stream)
    assert [record["fault"] for record in logged(endpoint, session)] == ["hang_before_head", "hang_half"]
    assert (await got(session, dialect)).status == 200


async def test_a_session_that_is_closed_takes_hanging_answers_with_it(endpoint: ScriptedEndpoint) -> None:
    session = await opened(endpoint, "{hang: half}")
    waiting = asyncio.create_task(got(session, stream=True))
    while not logged(endpoint, session):
        await asyncio.sleep(0.02)
    [record] = await session.close()
    assert not record.answered
    assert (await waiting).broken


@WAYS
async def test_delays_leave_the_reply_whole_and_its_bytes_in_their_order(
    endpoint: ScriptedEndpoint, stream: bool
) -> None:
    faults = "{delay: 0.1}, {first_byte_delay: 0.1}, {chunk_delay: 0.005}"
    session = await opened(endpoint, faults)
    answers = [await got(session, stream=stream) for _ in range(4)]
    assert len({len(answer.body) for answer in answers}) == 1
    assert [record["fault"] for record in logged(endpoint, session)] == ["slow"] * 3 + [None]
    assert all(model_call_of(record).answered for record in logged(endpoint, session))


async def test_a_client_that_leaves_while_it_waits_is_recorded_as_cut(endpoint: ScriptedEndpoint) -> None:
    session = await opened(endpoint, "{delay: 30}")
    with pytest.raises(asyncio.TimeoutError):
        async with asyncio.timeout(0.3):
            await got(session)
    while not logged(endpoint, session):
        await asyncio.sleep(0.02)
    [record] = logged(endpoint, session)
    assert (record["error"], record["fault"]) == ("cut", "slow")


@WAYS
async def test_a_list_of_choices_can_be_empty(endpoint: ScriptedEndpoint, stream: bool) -> None:
    session = await opened(endpoint, "{reply: empty_choices, times: always}")
    answer = await got(session, stream=stream)
    documents = answer.events if stream else [json.loads(answer.body)]
    assert documents and all(document["choices"] == [] for document in documents)
    assert logged(endpoint, session)[0]["response_id"] == documents[0]["id"]
    other = await got(session, Dialect.OPENAI_RESPONSES, stream)
    [*_, last] = other.events if stream else [{"response": json.loads(other.body)}]
    assert last["response"]["output"] == []


async def test_a_message_can_say_nothing(endpoint: ScriptedEndpoint) -> None:
    session = await opened(endpoint, "{reply: empty_message, times: always}")
    message = json.loads((await got(session)).body)["choices"][0]["message"]
    assert (message["content"], "tool_calls" in message) == (None, False)
    assert json.loads((await got(session, Dialect.OPENAI_RESPONSES)).body)["output"] == []


@EACH
async def test_usage_can_be_missing_or_negative_and_the_log_makes_none_up(
    endpoint: ScriptedEndpoint, dialect: Dialect
) -> None:
    session = await opened(endpoint, "{reply: no_usage}, {reply: negative_usage}")
    missing, negative = [json.loads((await got(session, dialect)).body).get("usage") for _ in range(2)]
    assert missing is None
    assert {-7, -3} <= set(negative.values()) <= {-7, -3, -10}
    for record in await session.close():
        assert record.answered
        assert record.usage.input_tokens is None


@EACH
async def test_another_model_may_answer(endpoint: ScriptedEndpoint, dialect: Dialect) -> None:
    session = await opened(endpoint, "{reply: other_model}")
    answer = await got(session, dialect)
    assert json.loads(answer.body)["model"] == "another-model"
    assert [line["model"] for line in logged(endpoint, session)] == ["another-model"]


async def test_calls_of_one_reply_can_share_their_id_or_have_none(endpoint: ScriptedEndpoint) -> None:
    session = await opened(endpoint, "{reply: duplicate_ids}, {reply: empty_ids}")
    for expected in ("call_a", ""):
        calls = json.loads((await got(session)).body)["choices"][0]["message"]["tool_calls"]
        assert [call["id"] for call in calls] == [expected, expected]


@EACH
async def test_an_earlier_reply_can_come_again(endpoint: ScriptedEndpoint, dialect: Dialect) -> None:
    session = await opened(endpoint, "{delay: 0.01}, {reply: stale}")
    first, again, fresh = [json.loads((await got(session, dialect)).body)["id"] for _ in range(3)]
    assert first == again != fresh
    assert [record["response_id"] for record in logged(endpoint, session)] == [first, again, fresh]


@EACH
@WAYS
async def test_json_can_break_off_although_the_answer_ends(
    endpoint: ScriptedEndpoint, dialect: Dialect, stream: bool
) -> None:
    session = await opened(endpoint, "{reply: truncated}")
    answer = await got(session, dialect, stream)
    assert (answer.status, answer.broken) == (200, False)
    with pytest.raises(ValueError):
        [
            json.loads(line.removeprefix(b"data: "))
            for line in answer.body.split(b"\n")
            if line[:6] == b"data: "
        ]
        json.loads(answer.body)
    assert logged(endpoint, session)[0]["error"] == "truncated"


@EACH
@WAYS
@pytest.mark.parametrize("kind", ["trailing_garbage", "not_utf8"])
async def test_bytes_can_be_garbled(
    endpoint: ScriptedEndpoint, dialect: Dialect, stream: bool, kind: str
) -> None:
    answer = await got(await opened(endpoint, f"{{reply: {kind}}}"), dialect, stream)
    if kind == "trailing_garbage":
        assert answer.body.endswith(b"}\nupstream closed\n")
    else:
        with pytest.raises(UnicodeDecodeError):
            answer.body.decode()


async def test_a_stream_can_end_without_its_end(endpoint: ScriptedEndpoint) -> None:
    session = await opened(endpoint, "{reply: no_end, times: always}")
    answers = [await got(session, dialect, stream=True) for dialect in ROUTES]
    for answer, end in zip(answers, (b"[DONE]", b"response.completed", b"message_stop"), strict=True):
        assert answer.body and end not in answer.body
        assert not answer.broken


async def test_an_error_can_come_within_a_stream(endpoint: ScriptedEndpoint) -> None:
    session = await opened(endpoint, "{reply: error_event, times: always}")
    with pytest.raises(openai.APIError, match="had an error while it answered"):
        await asked(session, Dialect.OPENAI_CHAT, stream=True)
    # The client gives the responses API's error as an event like any other.
    *_, last = await asked(session, Dialect.OPENAI_RESPONSES, stream=True)
    assert (last.type, last.code) == ("error", "server_error")
    assert [record["error"] for record in logged(endpoint, session)] == ["error_event", "error_event"]


@EACH
async def test_an_event_can_come_twice(endpoint: ScriptedEndpoint, dialect: Dialect) -> None:
    session = await opened(endpoint, "{reply: duplicate_chunk}")
    twice, once = [(await got(session, dialect, stream=True)).events for _ in range(2)]
    assert len(twice) == len(once) + 1
    assert any(first == second for first, second in itertools.pairwise(twice))


async def test_pieces_of_parallel_calls_can_take_turns_the_later_first(endpoint: ScriptedEndpoint) -> None:
    session = await opened(endpoint, "{reply: mixed_deltas, times: always}")
    events = (await got(session, stream=True)).events
    deltas = [call for event in events for call in event["choices"][0]["delta"].get("tool_calls", ())]
    assert [call["index"] for call in deltas] == [1, 0, 1, 0]
    arguments = [
        "".join(c["function"]["arguments"] for c in deltas if c["index"] == index) for index in (0, 1)
    ]
    assert arguments == ['{"at":"the sky over the sea"}', '{"at":"the sea below the sky"}']
    other = (await got(session, Dialect.OPENAI_RESPONSES, stream=True)).events
    assert [event["sequence_number"] for event in other] == list(range(len(other)))
    indices = [event["output_index"] for event in other if "function_call_arguments" in event["type"]]
    assert indices[:2] == [2, 1]


@pytest.mark.parametrize("kind", ["no_end", "error_event", "duplicate_chunk", "mixed_deltas", "stale"])
async def test_a_fault_that_an_answer_cannot_have_is_an_error_of_its_own(
    endpoint: ScriptedEndpoint, kind: str
) -> None:
    session = await opened(endpoint, f"{{reply: {kind}}}")
    assert (await got(session)).status == 400
    assert logged(endpoint, session)[0]["error"] == "fault_not_expressible"


async def test_arguments_that_are_not_there_cannot_be_cut(endpoint: ScriptedEndpoint) -> None:
    session = await opened(endpoint, "{cut: in_arguments, times: always}", "steps:\n  - text: no call\n")
    for stream in (False, True):
        answer = await got(session, stream=stream)
        assert (answer.status, answer.broken) == (400, False)

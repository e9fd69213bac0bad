"""Customers played by a model, through the engine: real workers, real endpoints, a database file."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from adapters.benchmarks.tau3_airline.card import GUIDELINES, TASKS
from adapters.benchmarks.tau3_airline.simulated_user import GREETING
from atp import registry
from atp.engine.home import home
from atp.engine.run import Run
from atp.protocol.errors import InvalidInput, NotReady
from atp.protocol.model import Limits
from atp.protocol.records import ModelCallRecord
from atp.protocol.spans import Span, SpanKind, SpanStatus
from atp.protocol.trace import Usage
from monitor import vocabulary as v
from monitor.records import model_calls
from tests.atp.engine.experiments import Lab, until
from tests.foreign_endpoint import ForeignEndpoint, ForeignReply, ForeignRequest, completion, replying

TASK = "12"
FIVE = ("I lost a bag.", "YAX4DR it is.", "Two bags.", "Yes, please.", "Nothing else.", "Bye ###STOP###")
"""Five turns of the agent lie between these lines."""


@pytest.fixture
def lab(tmp_path: Path, airline_data: Path, user_data: Path) -> Lab:
    return Lab(tmp_path)


def script(tmp_path: Path, *lines: str, usage: Mapping[str, int] | None = None) -> str:
    path = tmp_path / "user.yaml"
    steps = [{"text": line, **({"usage": usage} if usage else {})} for line in lines]
    path.write_text(json.dumps({"steps": steps}), encoding="utf-8")
    return f"scripted/file:{path}"


def user_spans(lab: Lab, run_id: str) -> list[Span]:
    return [span for span in lab.spans(run_id) if span.attributes.get(v.ACTOR) == "user_simulator"]


def sentences(airline_data: Path, task: str) -> Sequence[str]:
    rows = json.loads((airline_data / TASKS).read_bytes())
    [scenario] = [row["user_scenario"] for row in rows if row["id"] == task]
    texts = [text for key, text in scenario["instructions"].items() if key != "domain" and text]
    return [line.strip() for text in texts for line in text.splitlines() if line.strip()]


@pytest.mark.parametrize("harness", ["thinloop", "langgraph"])
async def test_the_endpoint_sees_the_official_prompt_and_no_request_of_the_agent_the_scenario(
    lab: Lab,
    airline_data: Path,
    user_data: Path,
    foreign_endpoint: ForeignEndpoint,
    harness: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k-123456")
    lines = list(FIVE)

    def respond(request: ForeignRequest, number: int) -> ForeignReply:
        text = lines.pop(0) if request.body["model"] == "customer" else f"Answer {number}."
        return replying(completion(f"chatcmpl-{number}", text=text))

    foreign_endpoint.respond = respond
    outcome = await lab.run(
        "tau3-airline",
        harness,
        models=["openai/agent"],
        user_model="openai/customer",
        base_url=foreign_endpoint.base_url,
        tasks=(TASK,),
    )
    [attempt] = outcome["attempts"]
    assert (attempt["status"], attempt["stop_reason"]) == ("completed", "user_stop")
    assert (attempt["turns"], attempt["user_turns"], attempt["simulated"]) == (5, 6, False)
    asked = {
        who: [r for r in foreign_endpoint.requests if r.body["model"] == who] for who in ("customer", "agent")
    }
    assert (len(asked["customer"]), len(asked["agent"])) == (6, 5)
    for request in asked["customer"]:
        assert request.headers["authorization"] == "Bearer k-123456"
        assert request.body["temperature"] == 0.0
        assert set(request.body) == {"model", "messages", "temperature"}
        system, greeting, *_ = request.body["messages"]
        guidelines, _, scenario = system["content"].partition("\n\n<scenario>\n")
        digest = hashlib.sha256((user_data / GUIDELINES).read_bytes()).hexdigest()
        assert hashlib.sha256(f"{guidelines}\n".encode()).hexdigest() == digest
        assert all(sentence in scenario for sentence in sentences(airline_data, TASK))
        assert greeting == {"role": "user", "content": GREETING}
    last = asked["customer"][-1].body["messages"]
    assert [m["content"] for m in last if m["role"] == "assistant"] == list(FIVE[:-1])
    assert [m["role"] for m in last[1:]] == ["user", "assistant"] * 5 + ["user"]
    for request in asked["agent"]:
        wire = json.dumps(request.body, ensure_ascii=False)
        for sentence in sentences(airline_data, TASK):
            assert json.dumps(sentence, ensure_ascii=False)[1:-1] not in wire
        assert "###STOP###" not in wire


@pytest.mark.parametrize(
    ("said", "stop_reason"),
    [("###STOP###", "user_stop"), ("###TRANSFER###", "transfer"), ("###OUT-OF-SCOPE###", "user_stop")],
)
async def test_each_stop_token_ends_the_run_officially(
    lab: Lab, tmp_path: Path, said: str, stop_reason: str
) -> None:
    played = script(tmp_path, "Hello.", f"Fine. {said}")
    outcome = await lab.run("tau3-airline", user_model=played, tasks=(TASK,), workers=0)
    [attempt] = outcome["attempts"]
    assert (attempt["status"], attempt["stop_reason"]) == ("completed", stop_reason)
    assert (attempt["score"], attempt["user_turns"]) == (1.0, 2)


async def test_the_users_calls_are_spans_of_their_own_and_count_apart(lab: Lab, tmp_path: Path) -> None:
    played = script(tmp_path, *FIVE, usage={"input_tokens": 100, "output_tokens": 7})
    outcome = await lab.run("tau3-airline", user_model=played, tasks=(TASK,))
    [attempt], [cell] = outcome["attempts"], outcome["cells"]
    assert (attempt["user_turns"], attempt["user_usage"]["input_tokens"]) == (6, 600)
    assert attempt["user_usage"]["output_tokens"] == 42
    assert (cell["user_turns"], cell["user_usage"], cell["user_model"]) == (
        6,
        attempt["user_usage"],
        played,
    )
    assert attempt["checks"]["agree"] is True, attempt["checks"]["differences"]
    spans = lab.spans(attempt["run_id"])
    [root] = [span for span in spans if span.parent_id is None]
    of_user = user_spans(lab, attempt["run_id"])
    of_agent = [span for span in spans if span.kind is SpanKind.MODEL and span not in of_user]
    assert (len(of_user), len(of_agent)) == (6, attempt["turns"])
    tokens = [span.attributes[v.USAGE_INPUT] for span in of_agent]
    assert attempt["usage"]["input_tokens"] == sum(n for n in tokens if isinstance(n, int))
    bodies = lab.bodies(attempt["run_id"])
    for number, span in enumerate(of_user):
        assert (span.parent_id, span.trace_id, span.status) == (
            root.span_id,
            root.trace_id,
            SpanStatus.OK,
        )
        assert (span.attributes[v.FINISH_REASON], span.attributes[v.RETRIES]) == ("stop", 0)
        assert span.attributes[v.RESPONSE_ID]
        [said] = bodies[span.bodies[v.OUTPUT_MESSAGES]]
        assert said == {"role": "assistant", "parts": [{"type": "text", "content": FIVE[number]}]}
        assert len(bodies[span.bodies[v.INPUT_MESSAGES]]) == 2 + 2 * number


async def test_without_a_model_there_is_nothing_of_a_user_to_show(lab: Lab) -> None:
    outcome = await lab.run("tau3-airline", tasks=(TASK,), workers=0)
    [attempt], [cell] = outcome["attempts"], outcome["cells"]
    assert (attempt["user_turns"], attempt["user_usage"], cell["user_turns"]) == (None, None, None)
    assert (cell["user_usage"], cell["user_model"]) == (None, None)


async def test_limits_count_the_agents_calls_alone(lab: Lab, tmp_path: Path) -> None:
    heavy = {"input_tokens": 10**9, "output_tokens": 1}
    played = script(tmp_path, *FIVE, usage=heavy)
    limits = Limits(max_turns=5, max_total_tokens=10**6, deadline=60.0)
    outcome = await lab.run(
        "tau3-airline",
        models=["scripted/noop"],
        user_model=played,
        tasks=(TASK,),
        limits=limits,
        workers=0,
    )
    [attempt] = outcome["attempts"]
    assert (attempt["status"], attempt["turns"], attempt["user_turns"]) == ("completed", 5, 6)


async def test_a_silent_user_ends_by_the_agents_limit(lab: Lab) -> None:
    limits = Limits(max_turns=3, deadline=60.0)
    outcome = await lab.run(
        "tau3-airline",
        models=["scripted/noop"],
        user_model="scripted/noop",
        tasks=(TASK,),
        limits=limits,
        workers=0,
    )
    [attempt] = outcome["attempts"]
    assert (attempt["status"], attempt["stop_reason"]) == ("limit", "max_turns")


async def test_a_user_that_never_stops_is_not_run_without_a_limit(lab: Lab) -> None:
    with pytest.raises(InvalidInput, match="never ends a conversation: give --max-turns"):
        await lab.run("tau3-airline", user_model="scripted/noop", tasks=(TASK,))


async def test_a_server_that_fails_the_user_is_an_infra_error_and_the_slot_is_tried_again(
    lab: Lab, foreign_endpoint: ForeignEndpoint
) -> None:
    broken = ForeignReply(status=500, body={"error": {"message": "out of order"}})
    well = [
        replying(completion(f"chatcmpl-{i}", text=text)) for i, text in enumerate(["Hello", "###STOP###"])
    ]
    foreign_endpoint.replies = [broken, broken, broken, broken, *well]
    outcome = await lab.run(
        "tau3-airline",
        user_model="openai/customer",
        user_base_url=foreign_endpoint.base_url,
        tasks=(TASK,),
        retries=1,
    )
    first, second = outcome["attempts"]
    assert (first["status"], first["stop_reason"], first["score"]) == ("infra_error", "provider_error", None)
    assert (first["error"]["code"], first["error"]["fault"]) == ("model_call", "infrastructure")
    assert "HTTP 500: out of order" in first["error"]["message"]
    assert (first["user_turns"], first["turns"]) == (0, 0)
    [span] = user_spans(lab, first["run_id"])
    assert (span.status, span.attributes[v.RETRIES]) == (SpanStatus.ERROR, 2)
    assert [event.attributes["http.status_code"] for event in span.events] == [500, 500, 500]
    assert (second["status"], second["score"], second["user_turns"]) == ("completed", 1.0, 2)
    [opening, _] = user_spans(lab, second["run_id"])
    assert opening.attributes[v.RETRIES] == 1
    assert outcome["cells"][0]["graded"] == 1


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (replying(completion(text=None)), "said nothing"),
        (replying(completion(text=" \n")), "said nothing"),
        (ForeignReply(raw=b"<html>busy</html>"), "no chat completion but '<html>busy</html>'"),
        (ForeignReply(status=400, body={"error": {"code": "content_filter", "message": "no"}}), "HTTP 400"),
    ],
    ids=["no text", "blanks", "no completion", "refused"],
)
async def test_a_user_without_words_is_never_the_benchmarks_fault(
    lab: Lab, foreign_endpoint: ForeignEndpoint, reply: ForeignReply, message: str
) -> None:
    foreign_endpoint.replies = [reply]
    outcome = await lab.run(
        "tau3-airline",
        user_model="openai/customer",
        user_base_url=foreign_endpoint.base_url,
        tasks=(TASK,),
        workers=0,
    )
    [attempt] = outcome["attempts"]
    assert (attempt["status"], attempt["score"]) == ("infra_error", None)
    assert message in attempt["error"]["message"]


async def test_the_temperature_can_be_left_to_the_provider(
    lab: Lab, foreign_endpoint: ForeignEndpoint
) -> None:
    foreign_endpoint.replies = [replying(completion(text="###STOP###"))]
    await lab.run(
        "tau3-airline",
        user_model="openai/customer",
        user_base_url=foreign_endpoint.base_url,
        benchmark_options={"user_temperature": "default"},
        tasks=(TASK,),
        workers=0,
    )
    [request] = foreign_endpoint.requests
    assert "temperature" not in request.body


async def test_while_the_users_model_is_silent_the_deadline_stands_still_and_a_cancel_cuts_it_off(
    lab: Lab, foreign_endpoint: ForeignEndpoint
) -> None:
    foreign_endpoint.respond = lambda request, number: ForeignReply(hang=True)
    runs: list[Run] = []
    running = asyncio.create_task(
        lab.run(
            "tau3-airline",
            user_model="openai/customer",
            user_base_url=foreign_endpoint.base_url,
            tasks=(TASK,),
            limits=Limits(deadline=2.0),
            workers=0,
            on_start=runs.append,
        )
    )
    await until(lambda: foreign_endpoint.requests)
    await asyncio.sleep(2.5)
    for _ in range(2):
        runs[0].interrupt()
    [attempt] = (await running)["attempts"]
    assert attempt["status"] == "cancelled"
    [span] = user_spans(lab, attempt["run_id"])
    assert span.status is SpanStatus.ABORTED


async def test_a_cell_is_simulated_when_either_side_is_scripted(
    lab: Lab, tmp_path: Path, foreign_endpoint: ForeignEndpoint
) -> None:
    foreign_endpoint.respond = lambda request, number: replying(completion(f"c-{number}", text="Well."))
    played = script(tmp_path, "Hello.", "###STOP###")
    outcome = await lab.run(
        "tau3-airline",
        models=["openai/agent"],
        base_url=foreign_endpoint.base_url,
        user_model=played,
        tasks=(TASK,),
        workers=0,
    )
    [attempt] = outcome["attempts"]
    assert outcome["cells"][0]["simulated"] is attempt["simulated"] is True
    # The agent's endpoint keeps no log; the user's does, and says nothing of the agent.
    assert attempt["checks"]["records"] == ["spans", "binding", "harness"]
    assert attempt["checks"]["agree"] is True, attempt["checks"]["differences"]


async def test_a_difference_in_the_users_records_is_named(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def altered(spans: Sequence[Any]) -> list[ModelCallRecord]:
        [first, *others] = model_calls(spans)
        return [
            ModelCallRecord(first.response_id, first.model, Usage(input_tokens=1), first.finish_reason),
            *others,
        ]

    monkeypatch.setattr("atp.engine.user_model.model_calls", altered)
    played = script(tmp_path, "Hello.", "###STOP###", usage={"input_tokens": 5, "output_tokens": 1})
    outcome = await lab.run("tau3-airline", user_model=played, tasks=(TASK,), workers=0)
    checks = outcome["attempts"][0]["checks"]
    assert checks["agree"] is False
    assert [
        d for d in checks["differences"] if "input_tokens is 5 for the endpoint, 1 in the model span" in d
    ]
    assert all(difference.startswith("user: ") for difference in checks["differences"])


async def test_the_users_session_has_a_path_of_its_own_and_is_marked(lab: Lab, tmp_path: Path) -> None:
    played = script(tmp_path, "Hello.", "###STOP###")
    outcome = await lab.run("tau3-airline", user_model=played, tasks=(TASK,), workers=0)
    run_id = outcome["attempts"][0]["run_id"]
    log = home() / "logs" / outcome["experiment"] / "wire.jsonl"
    wire = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    sessions = {(record["session"], record["actor"]) for record in wire}
    assert sessions == {(run_id, "agent"), (f"{run_id}.user_simulator", "user_simulator")}


async def test_the_users_model_is_frozen_and_resumed(
    lab: Lab, tmp_path: Path, foreign_endpoint: ForeignEndpoint
) -> None:
    foreign_endpoint.replies = [ForeignReply(status=401, body={"error": {"message": "who are you?"}})]
    before = await lab.run(
        "tau3-airline",
        user_model="openai/customer",
        user_base_url=foreign_endpoint.base_url,
        tasks=(TASK,),
        workers=0,
    )
    assert [attempt["status"] for attempt in before["attempts"]] == ["infra_error"]
    foreign_endpoint.respond = lambda request, number: replying(completion(f"c-{number}", text="###STOP###"))
    after = await lab.resume(before["experiment"])
    assert [attempt["status"] for attempt in after["attempts"]] == ["infra_error", "completed"]
    assert after["cells"][0]["user_model"] == "openai/customer"
    assert after["attempts"][1]["user_turns"] == 1


def test_a_real_agent_needs_a_user_played_by_a_model() -> None:
    pairing = registry.resolve("tau3-airline", "thinloop", "openai/x", environ={"OPENAI_API_KEY": "k"})
    [problem] = [problem for problem in pairing.problems if "played by a model" in problem]
    assert "give --user-model" in problem


async def test_a_benchmark_without_a_user_refuses_one_by_name(lab: Lab) -> None:
    with pytest.raises(InvalidInput, match="'ledger' has no user that a model could play"):
        await lab.run("ledger", user_model="scripted/noop")


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"user_model": "scripted/oracle"}, "does what an agent is to do"),
        ({"user_model": "scripted/noop", "user_base_url": "http://127.0.0.1:9"}, "an endpoint of its own"),
        ({"user_base_url": "http://127.0.0.1:9"}, "give --user-model as well"),
        ({"user_model": "gpt"}, "write provider/model"),
    ],
)
async def test_what_cannot_play_a_user_is_refused(lab: Lab, asked: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        await lab.run("tau3-airline", **asked)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("anthropic/claude", "ATP itself speaks openai-chat alone.*--user-base-url"),
        ("openai/x", "user model 'openai/x': openai needs a key: set OPENAI_API_KEY"),
    ],
)
async def test_a_user_that_cannot_be_reached_is_a_problem_with_the_way_out(
    lab: Lab, model: str, message: str
) -> None:
    with pytest.raises(NotReady, match=message):
        await lab.run("tau3-airline", user_model=model, environ={})


def test_missing_guidelines_are_a_problem_only_with_a_users_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ATP_HOME", str(tmp_path))
    without = registry.resolve("tau3-airline", "thinloop", "scripted/oracle")
    assert not [problem for problem in without.problems if "tau3-airline-user" in problem]
    played = registry.resolve("tau3-airline", "thinloop", "scripted/oracle", user_model="scripted/noop")
    [problem] = [problem for problem in played.problems if "tau3-airline-user" in problem]
    assert problem.endswith("type: atp data get tau3-airline-user")

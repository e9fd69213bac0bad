"""Stored runs repeated: the same calls and scores, and a plain word where it is not the same."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Any

import pytest
from ledger.benchmark import LedgerEnvironment

from atp.models.scripted.policies import NOOP_SENTENCE
from atp.protocol.errors import AtpError, InvalidInput, UnknownName
from atp.protocol.spans import SpanKind
from monitor import vocabulary as v
from tests.atp.engine.experiments import Lab
from tests.foreign_endpoint import ForeignEndpoint, completion, replying

TASKS = ("ledger-000", "ledger-001")
"""One that is asked at once, one that its user speaks."""
ONE: dict[str, Any] = {"tasks": TASKS[:1]}
HARNESSES = pytest.mark.parametrize(
    ("harness", "options"),
    [
        ("thinloop", {}),
        ("langgraph", {}),
        ("langgraph", {"stream": "true"}),
        ("openai-agents", {"dialect": "openai-chat"}),
        ("openai-agents", {"dialect": "openai-responses", "stream": "true"}),
        ("smolagents", {}),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(value.values()) or "default",
)


async def run(
    lab: Lab, harness: str, model: str, options: Mapping[str, str] | None = None, **more: Any
) -> dict[str, Any]:
    """Run two tasks, unless others are asked for, in this process: an SDK is imported once for all tests."""
    return await lab.run(
        harness=harness,
        models=(model,),
        workers=0,
        harness_options=options or {},
        **{"tasks": TASKS, **more},
    )


def replies(lab: Lab, run_id: str) -> list[Any]:
    """What the model said in each turn of a run, as its spans hold it."""
    bodies = lab.bodies(run_id)
    names = (v.OUTPUT_MESSAGES, v.TOOL_CALL_TEXTS)
    counts = (v.FINISH_REASON, v.USAGE_INPUT, v.USAGE_OUTPUT, v.USAGE_CACHE_READ, v.USAGE_REASONING)
    return [
        [
            *(bodies.get(span.bodies.get(name, "")) for name in names),
            *(span.attributes.get(name) for name in counts),
        ]
        for span in lab.spans(run_id)
        if span.kind is SpanKind.MODEL
    ]


@HARNESSES
async def test_an_experiment_is_repeated_slot_by_slot_on_each_harness(
    lab: Lab, harness: str, options: dict[str, str]
) -> None:
    stored = await run(lab, harness, "scripted/oracle", options)
    again = await run(lab, harness, f"scripted/replay:{stored['experiment']}", options)
    [cell] = again["cells"]
    assert (cell["simulated"], cell["mean"], cell["graded"]) == (True, 1.0, 2)
    for before, after in zip(stored["attempts"], again["attempts"], strict=True):
        assert (after["task_id"], after["repeat"]) == (before["task_id"], before["repeat"])
        assert after["checks"]["agree"] is True, after["checks"]["differences"]
        assert after["final_answer"] == before["final_answer"]
        assert [(c["id"], c["name"], c["arguments"], c["result"]) for c in after["tool_calls"]] == [
            (c["id"], c["name"], c["arguments"], c["result"]) for c in before["tool_calls"]
        ]
        assert after["model_answered"] == f"scripted/replay:{stored['experiment']}"
        assert replies(lab, after["run_id"]) == replies(lab, before["run_id"])


def conversation(endpoint: ForeignEndpoint) -> None:
    """A model elsewhere that looks at an account and then speaks."""
    counts = {
        "prompt_tokens": 90,
        "completion_tokens": 30,
        "total_tokens": 120,
        "prompt_tokens_details": {"cached_tokens": 64},
        "completion_tokens_details": {"reasoning_tokens": 12},
    }
    endpoint.replies = [
        replying(
            completion(
                text="I look.",
                reasoning="It has to be seen.",
                tool_calls=[("call_x7", "balance", '{ "account" :"acc-1"}')],
                usage=counts,
            )
        ),
        replying(completion("chatcmpl-foreign-2", text="Seen.", finish_reason="length")),
    ]


async def test_what_a_model_elsewhere_wrote_is_repeated_character_by_character(
    lab: Lab, foreign_endpoint: ForeignEndpoint
) -> None:
    conversation(foreign_endpoint)
    stored = await run(
        lab, "openai-agents", "openai/foreign-model", base_url=foreign_endpoint.base_url, **ONE
    )
    [before] = stored["attempts"]
    again = await run(lab, "openai-agents", f"scripted/replay:{before['run_id']}", **ONE)
    [after] = again["attempts"]
    assert len(foreign_endpoint.requests) == 2
    assert (stored["cells"][0]["simulated"], again["cells"][0]["simulated"]) == (False, True)
    first, second = replies(lab, after["run_id"])
    assert [first, second] == replies(lab, before["run_id"])
    assert first[1] == {"call_x7": '{ "account" :"acc-1"}'}
    assert first[2:] == ["tool_calls", 90, 30, 64, 12]
    # The provider said no tokens of the second reply, and none are made up.
    assert second[2:5] == ["length", None, None]
    assert after["usage"]["input_tokens"] is None
    assert after["model_answered"] == f"scripted/replay:{before['run_id']}"
    assert after["checks"]["agree"] is True, after["checks"]["differences"]


async def test_a_tool_that_gives_another_result_ends_the_replay_there(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = await run(lab, "langgraph", "scripted/oracle", **ONE)
    [before] = stored["attempts"]
    real = LedgerEnvironment.execute

    async def poorer(self: LedgerEnvironment, name: str, arguments: dict[str, Any]) -> Any:
        return 0 if name == "balance" else await real(self, name, arguments)

    monkeypatch.setattr(LedgerEnvironment, "execute", poorer)
    again = await run(lab, "langgraph", f"scripted/replay:{before['run_id']}", **ONE)
    [after] = again["attempts"]
    assert (after["status"], after["stop_reason"], after["score"]) == ("infra_error", "provider_error", None)
    assert after["error"]["fault"] == "user"
    call = after["tool_calls"][3]
    assert call["name"] == "balance"
    says = f"replay of {before['run_id']} ends at turn 5: message 10 (result of call {call['id']}) differs"
    assert says in after["error"]["message"]
    assert [c["name"] for c in after["tool_calls"]] == [c["name"] for c in before["tool_calls"]]
    [(reason, count)] = again["cells"][0]["missing_by_reason"].items()
    assert (says in reason, count) == (True, 1)


async def test_another_harness_that_asks_the_same_gets_the_same_replies(lab: Lab) -> None:
    stored = await run(lab, "thinloop", "scripted/oracle")
    again = await run(lab, "openai-agents", f"scripted/replay:{stored['experiment']}")
    assert again["cells"][0]["mean"] == 1.0


async def test_another_harness_that_asks_otherwise_is_told_where(lab: Lab) -> None:
    stored = await run(lab, "thinloop", "scripted/oracle", **ONE)
    again = await run(lab, "smolagents", f"scripted/replay:{stored['attempts'][0]['run_id']}", **ONE)
    [after] = again["attempts"]
    assert after["status"] == "infra_error"
    assert (
        "ends at turn 1: message 1 (system) differs at character 5: stored 'You keep a ledger."
        in (after["error"]["message"])
    )


async def test_a_replay_can_be_resumed(lab: Lab) -> None:
    stored = await run(lab, "thinloop", "scripted/oracle", **ONE, repeats=2)
    again = await run(
        lab,
        "thinloop",
        f"scripted/replay:{stored['experiment']}",
        **ONE,
        repeats=2,
        on_start=lambda started: started.interrupt(),
    )
    assert again["cells"][0]["graded"] == 0
    resumed = await lab.resume(again["experiment"])
    assert (resumed["cells"][0]["graded"], resumed["cells"][0]["mean"]) == (2, 1.0)


async def refusal(lab: Lab, replayed: str, **options: Any) -> AtpError:
    """Why a replay is not started."""
    before = lab.watched
    with pytest.raises(AtpError) as caught:
        await lab.run(models=(f"scripted/replay:{replayed}",), **options)
    assert lab.watched is before  # what watches a run is new for each
    return caught.value


async def test_what_cannot_be_repeated_is_refused_before_anything_starts(lab: Lab) -> None:
    stored = await lab.run(**ONE, models=("scripted/oracle", "scripted/noop"))
    run_id, experiment = stored["attempts"][0]["run_id"], stored["experiment"]
    unwatched = await lab.run(**ONE, monitored=False)

    unknown = await refusal(lab, "run-nowhere")
    assert isinstance(unknown, UnknownName)
    assert "no run 'run-nowhere'" in unknown.message
    assert isinstance(await refusal(lab, "exp-nowhere"), UnknownName)
    other = await refusal(lab, run_id, tasks=("ledger-002",))
    assert isinstance(other, InvalidInput)
    assert "no run of task 'ledger-002' (repeat 0); it is a run of task 'ledger-000'" in other.message
    several = await refusal(lab, experiment, **ONE)
    assert "has 2 cells of benchmark 'ledger'" in several.message
    assert f"replay:{experiment}-1 is ledger, thinloop, scripted/noop" in several.message
    no_monitor = await refusal(lab, unwatched["experiment"], **ONE)
    assert "--no-monitor" in no_monitor.message


async def test_one_cell_of_several_is_named_by_its_number(lab: Lab) -> None:
    stored = await lab.run(**ONE, models=("scripted/oracle", "scripted/noop"))
    again = await lab.run(**ONE, models=(f"scripted/replay:{stored['experiment']}-1",))
    assert again["cells"][0]["mean"] == 0.0
    assert again["attempts"][0]["final_answer"] == NOOP_SENTENCE


async def test_bodies_that_are_gone_are_named_before_anything_starts(lab: Lab) -> None:
    stored = await lab.run(**ONE)
    run_id = stored["attempts"][0]["run_id"]
    span = next(span for span in lab.spans(run_id) if v.OUTPUT_MESSAGES in span.bodies)
    digest = span.bodies[v.OUTPUT_MESSAGES]
    with sqlite3.connect(lab.url.removeprefix("sqlite:///")) as database:
        database.execute("DELETE FROM bodies WHERE digest = ?", (digest,))
    database.close()
    gone = await refusal(lab, run_id, **ONE)
    assert f"run {run_id} cannot be replayed: body {digest} is not in the store" in gone.message
    assert gone.code == "body_missing"

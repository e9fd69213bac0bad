"""Limits, alike everywhere: each harness, each way of asking, against somebody else's server, which counts.

Every reply of the server asks for one more tool call, so what ends an attempt is a limit.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from atp import registry
from atp.protocol.model import Limits, Sampling
from tests.atp.engine.experiments import Lab
from tests.foreign_endpoint import ForeignEndpoint, ForeignReply, ForeignRequest, completion, replying
from tests.foreign_responses import replying_response, response

INPUT, OUTPUT = 100, 20
"""Tokens of each reply."""
PRICES = """
prices:
  - models: [openai/x]
    input: 10
    output: 50
    date: 2026-11-30
    source: this test
"""
COST = (INPUT * 10 + OUTPUT * 50) / 1e6
"""USD of each reply: 0.002."""


@dataclass(frozen=True)
class Way:
    """A harness, and how it asks its model."""

    harness: str
    options: dict[str, str] = field(default_factory=dict)
    tries: int = 3
    """Requests of a call that is never answered: the SDK's first and its own repetitions."""

    def __str__(self) -> str:
        return "-".join((self.harness, *self.options.values()))


WAYS = (
    Way("langgraph"),
    Way("langgraph", {"stream": "true"}),
    Way("openai-agents"),
    Way("openai-agents", {"stream": "true"}),
    Way("openai-agents", {"dialect": "openai-responses"}),
    Way("openai-agents", {"dialect": "openai-responses", "stream": "true"}),
    Way("smolagents"),
    Way("thinloop", tries=1),
)
EACH_WAY = pytest.mark.parametrize("way", WAYS, ids=str)
_imported: set[str] = set()
"""Harnesses that have run in this process."""
EACH_WAY_THAT_REPEATS = pytest.mark.parametrize("way", [way for way in WAYS if way.tries > 1], ids=str)


def calling(
    request: ForeignRequest, number: int, tool: str = "balance", arguments: str | None = None
) -> ForeignReply:
    """A reply that asks for a tool call."""
    call = (f"call_{number}", tool, arguments or '{"account": "acc-1"}')
    if request.path == "/v1/responses":
        usage: dict[str, Any] = {
            "input_tokens": INPUT,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": OUTPUT,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": INPUT + OUTPUT,
        }
        return replying_response(response(f"resp_{number}", tool_calls=[call], usage=usage))
    usage = {"prompt_tokens": INPUT, "completion_tokens": OUTPUT, "total_tokens": INPUT + OUTPUT}
    return replying(completion(f"c-{number}", tool_calls=[call], usage=usage))


async def attempt(
    lab: Lab,
    endpoint: ForeignEndpoint,
    way: Way,
    respond: Callable[[ForeignRequest, int], ForeignReply],
    **options: Any,
) -> dict[str, Any]:
    """One attempt at a task; in this process, since the SDKs are imported here once for all: by an attempt
    before the first one that counts, so that no deadline pays for it."""
    endpoint.respond = respond
    if way.harness not in _imported:
        _imported.add(way.harness)
        await attempt(lab, endpoint, way, calling, limits=Limits(max_turns=1))
        endpoint.requests.clear()
        endpoint.respond = respond
    outcome = await lab.run(
        harness=way.harness,
        models=["openai/x"],
        base_url=endpoint.base_url,
        python=Path(sys.executable),
        workers=0,
        tasks=("ledger-000",),
        harness_options=way.options,
        **options,
    )
    [only] = outcome["attempts"]
    return dict(only)


def ended(shown: dict[str, Any]) -> tuple[str, str]:
    return shown["status"], shown["stop_reason"]


@EACH_WAY
async def test_max_turns(lab: Lab, foreign_endpoint: ForeignEndpoint, way: Way) -> None:
    shown = await attempt(lab, foreign_endpoint, way, calling, limits=Limits(max_turns=3))
    extra = registry.harness(way.harness).extra_calls_at_limit
    assert ended(shown) == ("limit", "max_turns")
    assert len(foreign_endpoint.requests) == shown["turns"] == 3 + extra


@EACH_WAY
async def test_max_total_tokens(lab: Lab, foreign_endpoint: ForeignEndpoint, way: Way) -> None:
    most = 2 * (INPUT + OUTPUT)  # is reached by two calls, and passed by the third
    shown = await attempt(lab, foreign_endpoint, way, calling, limits=Limits(max_total_tokens=most))
    assert ended(shown) == ("limit", "max_total_tokens")
    assert len(foreign_endpoint.requests) == shown["turns"] == 3
    assert len(shown["tool_calls"]) == 2  # what the call that broke the limit asked for is not done
    assert shown["checks"]["differences"] == []


@EACH_WAY
async def test_max_cost(lab: Lab, foreign_endpoint: ForeignEndpoint, way: Way, tmp_path: Path) -> None:
    prices = tmp_path / "prices.yaml"
    prices.write_text(PRICES, encoding="utf-8")
    shown = await attempt(
        lab, foreign_endpoint, way, calling, limits=Limits(max_cost=2 * COST), prices=prices
    )
    assert ended(shown) == ("limit", "max_cost")
    assert len(foreign_endpoint.requests) == shown["turns"] == 3
    assert shown["cost"] == pytest.approx(3 * COST, abs=1e-12)


@EACH_WAY
async def test_the_deadline_cuts_a_tool_off(lab: Lab, foreign_endpoint: ForeignEndpoint, way: Way) -> None:
    shown = await attempt(
        lab,
        foreign_endpoint,
        way,
        lambda request, number: calling(request, number, "wait", '{"seconds": 60}'),
        limits=Limits(deadline=3.0),
    )
    assert ended(shown) == ("limit", "deadline")
    assert len(foreign_endpoint.requests) == 1
    assert shown["score"] == 0.0


@EACH_WAY
async def test_the_deadline_cuts_a_model_call_off(
    lab: Lab, foreign_endpoint: ForeignEndpoint, way: Way
) -> None:
    shown = await attempt(
        lab,
        foreign_endpoint,
        way,
        lambda request, number: calling(request, number) if number == 0 else ForeignReply(hang=True),
        limits=Limits(deadline=3.0),
    )
    assert ended(shown) == ("limit", "deadline")
    assert len(foreign_endpoint.requests) == 2
    assert shown["turns"] == 1


@EACH_WAY
async def test_the_model_timeout_is_that_of_a_try(
    lab: Lab, foreign_endpoint: ForeignEndpoint, way: Way
) -> None:
    shown = await attempt(
        lab,
        foreign_endpoint,
        way,
        lambda request, number: ForeignReply(hang=True),
        limits=Limits(model_timeout=0.2),
    )
    assert ended(shown) == ("infra_error", "provider_error")
    assert len(foreign_endpoint.requests) == way.tries
    assert shown["score"] is None
    assert way.tries * 0.2 <= shown["time_lost"] <= shown["elapsed"]


@EACH_WAY
async def test_max_output_tokens_is_in_every_request(
    lab: Lab, foreign_endpoint: ForeignEndpoint, way: Way
) -> None:
    await attempt(
        lab,
        foreign_endpoint,
        way,
        calling,
        limits=Limits(max_turns=2),
        sampling=Sampling(max_output_tokens=321),
    )
    assert all(321 in request.body.values() for request in foreign_endpoint.requests)


@EACH_WAY_THAT_REPEATS
async def test_a_try_that_the_sdk_repeats_is_no_turn(
    lab: Lab, foreign_endpoint: ForeignEndpoint, way: Way
) -> None:
    def respond(request: ForeignRequest, number: int) -> ForeignReply:
        if number == 1:
            error = {"error": {"message": "overloaded"}}
            return ForeignReply(body=error, status=503, headers={"retry-after": "0.3"})
        return calling(request, number)

    shown = await attempt(lab, foreign_endpoint, way, respond, limits=Limits(max_turns=2))
    extra = registry.harness(way.harness).extra_calls_at_limit
    assert ended(shown) == ("limit", "max_turns")
    assert shown["turns"] == 2 + extra
    assert len(foreign_endpoint.requests) == 3 + extra
    assert shown["time_lost"] >= 0.3


@EACH_WAY_THAT_REPEATS
async def test_a_deadline_that_provider_errors_ate_says_nothing_of_the_agent(
    lab: Lab, foreign_endpoint: ForeignEndpoint, way: Way
) -> None:
    # The wait outlives the deadline, but not for long: smolagents sleeps through it in a thread.
    def respond(request: ForeignRequest, number: int) -> ForeignReply:
        if number == 1:
            error = {"error": {"message": "overloaded"}}
            return ForeignReply(body=error, status=503, headers={"retry-after": "4"})
        return calling(request, number)

    shown = await attempt(lab, foreign_endpoint, way, respond, limits=Limits(deadline=3.0))
    assert ended(shown) == ("infra_error", "provider_error")
    assert "failed tries of model calls took" in shown["error"]["message"]
    assert shown["score"] is None

"""Costs and budgets of experiments, by prices that the test gives. A reply of the script costs 0.002 USD."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from atp.engine.budget import Budget
from atp.engine.forecast import forecast
from atp.engine.options import RunOptions
from atp.engine.plan import plan
from atp.protocol.errors import InvalidInput, NotReady
from atp.protocol.model import Limits
from tests.atp.engine.experiments import Lab
from tests.foreign_endpoint import ForeignEndpoint, completion, replying

PRICES = """
prices:
  - models: ["scripted/*", openai/x]
    input: 10
    cached_read: 1
    output: 50
    date: 2026-11-30
    source: this test
"""
SCRIPT = """
steps:
  - tool_calls: [{name: balance, arguments: {account: acc-1}}]
    usage: {input_tokens: 100, output_tokens: 20}
  - text: done
    usage: {input_tokens: 100, output_tokens: 20}
"""
ATTEMPT = 0.004
"""USD of its two replies, each 100 * 10 / 10^6 + 20 * 50 / 10^6."""


@pytest.fixture
def priced(tmp_path: Path) -> dict[str, Any]:
    """Options with a priced scripted model that needs no user."""
    (tmp_path / "prices.yaml").write_text(PRICES, encoding="utf-8")
    (tmp_path / "script.yaml").write_text(SCRIPT, encoding="utf-8")
    return {"models": [f"scripted/file:{tmp_path / 'script.yaml'}"], "prices": tmp_path / "prices.yaml"}


def planned(environ: Mapping[str, str] | None = None, **options: Any) -> Any:
    asked = {"benchmarks": ("ledger",), "harnesses": ("thinloop",), "count": 4, "retries": 1, **options}
    return plan(RunOptions(**asked), environ or {})


async def test_costs_are_in_attempt_and_cell_and_a_scripted_model_stays_simulated(
    lab: Lab, priced: dict[str, Any]
) -> None:
    outcome = await lab.run(count=3, **priced)
    [cell] = outcome["cells"]
    assert [attempt["cost"] for attempt in outcome["attempts"]] == [ATTEMPT] * 3
    assert cell["cost"] == cell["spent"] == pytest.approx(3 * ATTEMPT)
    assert cell["simulated"] is True
    assert cell["price"]["source"] == "this test"


async def test_a_model_without_a_price_has_no_cost(lab: Lab) -> None:
    outcome = await lab.run(count=1)
    [cell] = outcome["cells"]
    assert (outcome["attempts"][0]["cost"], cell["cost"], cell["spent"], cell["price"]) == (None,) * 4


async def test_a_budget_that_is_spent_starts_nothing_more_and_resume_goes_on_with_another(
    lab: Lab, priced: dict[str, Any]
) -> None:
    first = await lab.run(count=5, concurrency=1, budget=0.01, **priced)
    [cell] = first["cells"]
    # 0.004, 0.008: something is left; 0.012: nothing is.
    assert (cell["graded"], cell["missing_by_reason"]) == (3, {"budget": 2})
    again = await lab.resume()  # the budget stays as it was
    assert again["cells"][0]["missing_by_reason"] == {"budget": 2}
    assert lab.watched.started == []
    more = await lab.resume(budget=0.015, concurrency=1)
    assert more["cells"][0]["missing_by_reason"] == {"budget": 1}  # 0.016
    rest = await lab.resume(budget=1.0)
    assert (rest["cells"][0]["graded"], rest["cells"][0]["missing"]) == (5, 0)


async def test_a_resumed_experiment_keeps_its_frozen_prices(lab: Lab, priced: dict[str, Any]) -> None:
    await lab.run(count=2, concurrency=1, budget=0.001, **priced)
    priced["prices"].unlink()
    rest = await lab.resume(budget=1.0)
    assert [attempt["cost"] for attempt in rest["attempts"]] == [ATTEMPT] * 2


def test_what_runs_counts_for_the_next_attempt() -> None:
    budget = Budget(1.0, Decimal("0.5"))
    assert budget.allows_more([Decimal("0.2"), Decimal("0.2")])
    assert not budget.allows_more([Decimal("0.2"), Decimal("0.3")])
    budget.settle(Decimal("0.5"))
    assert not budget.allows_more([])
    assert Budget(None, Decimal(10**9)).allows_more([])


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        ({"limits": Limits(max_cost=1)}, "--max-cost"),
        ({"budget": 1.0}, "--budget"),
        ({"limits": Limits(max_cost=1), "budget": 1.0}, "--max-cost and --budget"),
    ],
)
@pytest.mark.parametrize("model", ["scripted/oracle", "openai/gpt-5.2"])
def test_a_model_without_a_price_is_refused_by_name_before_anything_runs(
    asked: dict[str, Any], names: str, model: str
) -> None:
    # The published price is that of the provider's own address.
    with pytest.raises(NotReady) as refused:
        planned(models=(model,), base_url=None if "scripted" in model else "http://127.0.0.1:9/v1", **asked)
    assert refused.value.message.startswith(
        f"model {model!r}: its price is not known here, so {names} cannot"
    )
    assert "--prices FILE" in refused.value.message


def test_at_the_providers_own_address_the_published_price_holds() -> None:
    made = planned({"OPENAI_API_KEY": "k"}, models=("openai/gpt-5.2",), budget=1.0)
    assert made.cells[0].row.definition["price"]["input"] == 1.75


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ({"limits": Limits(max_total_tokens=1)}, "--max-total-tokens"),
        ({"limits": Limits(max_cost=1)}, "--max-cost"),
        ({"budget": 1.0}, "--budget"),
    ],
)
def test_without_a_monitor_limits_on_tokens_and_cost_are_refused(asked: dict[str, Any], name: str) -> None:
    with pytest.raises(InvalidInput, match=f"{name} is held by what the monitor sees"):
        planned(models=("scripted/oracle",), monitored=False, **asked)


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ({"limits": Limits(max_total_tokens=10**6)}, "--max-total-tokens"),
        ({"limits": Limits(max_cost=1)}, "--max-cost"),
        ({"budget": 1.0}, "--budget"),
    ],
)
async def test_a_reply_without_usage_ends_an_attempt_whose_limit_counts_it(
    lab: Lab, priced: dict[str, Any], foreign_endpoint: ForeignEndpoint, asked: dict[str, Any], name: str
) -> None:
    call = ("call_1", "balance", '{"account": "acc-1"}')
    foreign_endpoint.respond = lambda request, number: replying(completion(f"c-{number}", tool_calls=[call]))
    options = {**priced, "models": ["openai/x"], "base_url": foreign_endpoint.base_url, "count": 1, **asked}
    [attempt] = (await lab.run(**options))["attempts"]
    assert (attempt["status"], attempt["error"]["fault"]) == ("infra_error", "user")
    assert attempt["error"]["message"] == (f"a reply of x came without its usage, so {name} cannot be held")
    assert len(foreign_endpoint.requests) == 1


async def test_an_answer_that_breaks_a_limit_is_kept_and_graded(lab: Lab, priced: dict[str, Any]) -> None:
    outcome = await lab.run(tasks=("ledger-000",), limits=Limits(max_total_tokens=200), **priced)
    [attempt] = outcome["attempts"]
    assert (attempt["status"], attempt["stop_reason"]) == ("limit", "max_total_tokens")
    assert attempt["final_answer"] == "done"
    assert attempt["score"] is not None


def test_the_forecast_bounds_cost_by_limits_prices_and_budget(priced: dict[str, Any]) -> None:
    # 4 slots of 2 tries each
    asked = {**priced, "models": tuple(priced["models"])}
    assert forecast(planned(**asked))["most_cost"] is None
    assert forecast(planned(limits=Limits(max_cost=0.5), **asked))["most_cost"] == 4.0
    by_tokens = Limits(max_total_tokens=1000)  # at most 50 USD for a million
    assert forecast(planned(limits=by_tokens, **asked))["most_cost"] == pytest.approx(0.4)
    assert forecast(planned(limits=by_tokens, budget=0.1, **asked))["most_cost"] == 0.1

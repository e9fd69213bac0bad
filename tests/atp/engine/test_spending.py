"""What an attempt spends, apart for the agent and for others, and by which frozen prices."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

from atp.engine.limits import HardLimits
from atp.engine.options import RunOptions
from atp.engine.pricing import by_model, frozen_prices, unpriced
from atp.engine.spending import Spending
from atp.models.prices import Price
from atp.protocol.model import Limits
from atp.protocol.spans import Actor, ParentSource, SpanEnd, SpanKind, SpanStart, SpanStatus
from atp.protocol.status import StopReason
from atp.store.rows import CellRow
from monitor import vocabulary as v

PRICE = Price(input=10, output=50, date=datetime.date(2026, 11, 30), source="this test")
KNOWN = {"x": PRICE, "openai/user": PRICE}


def reply(model: str, actor: Actor = Actor.AGENT, *, usage: bool = True, ok: bool = True) -> SpanEnd:
    """The end of a model span: 100 tokens in, 20 out, 0.002 USD."""
    attributes: dict[str, Any] = {v.MODEL_NAME: model, v.ACTOR: actor.value, v.RESPONSE_ID: "r"}
    if usage:
        attributes |= {v.USAGE_INPUT: 100, v.USAGE_OUTPUT: 20}
    start = SpanStart(
        "run-1", "0" * 32, "0" * 16, None, ParentSource.ROOT, SpanKind.MODEL, model, 0, attributes
    )
    return SpanEnd(start, 1, SpanStatus.OK if ok else SpanStatus.ERROR, attributes, {})


def spent(*spans: SpanEnd) -> Spending:
    spending = Spending(KNOWN)
    for span in spans:
        spending.add(span)
    return spending


def test_calls_for_a_user_are_apart_from_the_agents_and_count_for_what_is_spent() -> None:
    spending = spent(reply("x"), reply("openai/user", Actor.USER_SIMULATOR), reply("x"))
    assert (spending.tokens, spending.cost) == (240, Decimal("0.004"))
    assert spending.costs_of_others == {"user_simulator": Decimal("0.002")}
    assert spending.known == Decimal("0.006")


def test_a_call_that_failed_costs_nothing_that_is_known() -> None:
    spending = spent(reply("x", ok=False, usage=False))
    assert (spending.cost, spending.known) == (None, Decimal(0))
    assert not spending.unpriced


def test_a_users_unknown_price_hurts_a_budget_and_no_limit_of_the_agent() -> None:
    for budgeted, told in ((False, None), (True, "the price of u is not known, so --budget cannot be held")):
        limits = HardLimits(Limits(max_cost=1, max_total_tokens=1000), 0, Spending(KNOWN), budgeted)
        assert limits.ended(reply("u", Actor.USER_SIMULATOR)) is None
        assert limits.not_held == told


def test_turns_are_the_agents_calls_that_did_not_fail() -> None:
    limits = HardLimits(Limits(max_turns=1), 0, Spending(KNOWN), False)
    failed, user, answered = reply("x", ok=False), reply("openai/user", Actor.USER_SIMULATOR), reply("x")
    for call in (failed, user, answered):
        assert limits.started(call.start) is None
        limits.ended(call)
    assert limits.started(answered.start) is StopReason.MAX_TURNS


def test_prices_are_frozen_by_the_names_that_spans_have() -> None:
    price = PRICE.model_dump(mode="json")
    definition = {
        "model": "openai/x",
        "price": price,
        "user": {"model": "openai/user"},
        "user_price": price,
    }
    cell = CellRow("c", "e", 0, "b", "h", "openai/x", False, False, definition)
    assert frozen_prices(cell) == KNOWN
    assert by_model([definition]) == {"openai/x": price, "openai/user": price}


def test_a_users_model_without_a_price_is_refused_for_a_budget_only() -> None:
    definition = {
        "model": "openai/x",
        "price": PRICE.model_dump(mode="json"),
        "user": {"model": "openai/u"},
        "user_price": None,
    }
    asked = {"benchmarks": ("b",), "harnesses": ("h",), "models": ("openai/x",)}
    assert unpriced(RunOptions.model_validate({**asked, "limits": {"max_cost": 1}}), [definition]) == []
    [told] = unpriced(RunOptions.model_validate({**asked, "budget": 1}), [definition])
    assert told.startswith("model 'openai/u': its price is not known here, so --budget cannot be held")

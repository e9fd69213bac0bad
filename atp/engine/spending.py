"""What an attempt spends, as its model spans end: tokens and money, of the agent and of others."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from atp.models.prices import Price, total_cost
from atp.protocol.spans import Actor, Span, SpanEnd, SpanKind, SpanStatus
from monitor.records import model_calls
from monitor.vocabulary import MODEL_NAME

Prices = Mapping[str, Price | None]
"""The name of a model, as it stands in requests -> what it costs; None where that is not known."""


class Spending:
    """Adds up model calls. A call that failed or was cut off has no usage, and so no part in it.

    Args:
        prices: Of the models that the attempt may call.
    """

    def __init__(self, prices: Prices) -> None:
        self._prices = prices
        self._costs: dict[str, list[Decimal | None]] = {}
        self.tokens = 0
        """Input and output tokens of the agent's calls, as far as they are known."""
        self.unmetered: str | None = None
        """Why the tokens of a call of the agent are not known."""
        self.unpriced: dict[str, str] = {}
        """Actor -> why the cost of a call of theirs is not known."""

    def add(self, span: SpanEnd | Span) -> None:
        """Count a span that has ended, if it is of a model call that was answered."""
        kind = span.start.kind if isinstance(span, SpanEnd) else span.kind
        if kind is not SpanKind.MODEL or span.status is not SpanStatus.OK:
            return
        [call] = model_calls([span])
        asked = str(span.attributes.get(MODEL_NAME))
        price, why = self._prices.get(asked), None
        if call.usage.input_tokens is None or call.usage.output_tokens is None:
            why = f"a reply of {asked} came without its usage"
            if call.actor == Actor.AGENT:
                self.unmetered = why
        elif call.actor == Actor.AGENT:
            self.tokens += call.usage.input_tokens + call.usage.output_tokens
        cost = None if price is None else price.cost(call.usage)
        if price is None:
            why = f"the price of {asked} is not known"
        elif cost is None:
            why = why or f"a reply of {asked} has cached tokens, whose price is not known"
        if why is not None:
            self.unpriced.setdefault(call.actor, why)
        self._costs.setdefault(call.actor, []).append(cost)

    @property
    def cost(self) -> Decimal | None:
        """USD of the agent's calls; None when one of them has no known cost, or there was none."""
        return total_cost(self._costs.get(Actor.AGENT, ()))

    @property
    def costs_of_others(self) -> Mapping[str, Decimal | None]:
        """Actor -> USD of the calls made on behalf of others than the agent."""
        return {actor: total_cost(costs) for actor, costs in self._costs.items() if actor != Actor.AGENT}

    @property
    def known(self) -> Decimal:
        """USD of all calls whose cost is known, whoever made them."""
        return sum((cost for costs in self._costs.values() for cost in costs if cost is not None), Decimal(0))

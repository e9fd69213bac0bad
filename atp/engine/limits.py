"""The hard limits of an attempt: ours, outside the harness, by what its model spans report.

Which limit fires is decided by the first that is broken. `docs/limits.md` says what each one counts.
"""

from __future__ import annotations

from decimal import Decimal

from atp.engine.spending import Spending
from atp.protocol.model import Limits
from atp.protocol.spans import Actor, SpanEnd, SpanStart, SpanStatus
from atp.protocol.status import StopReason
from monitor.vocabulary import ACTOR


class HardLimits:
    """Watches turns, tokens and cost of one attempt.

    Args:
        limits: What is allowed.
        extra_calls: Model calls that the SDK still makes at its own limit of turns.
        spending: To which the attempt's spans are added here.
        budgeted: Whether the cost of each call has to be known, for the experiment's budget.
    """

    def __init__(self, limits: Limits, extra_calls: int, spending: Spending, budgeted: bool) -> None:
        self._limits = limits
        self._extra_calls = extra_calls
        self._spending = spending
        self._budgeted = budgeted
        self._turns = 0

    def started(self, record: SpanStart) -> StopReason | None:
        """A model span has started; gives the limit that it breaks."""
        if record.attributes.get(ACTOR, Actor.AGENT) != Actor.AGENT:
            return None
        self._turns += 1
        most = self._limits.max_turns
        return StopReason.MAX_TURNS if most is not None and self._turns > most + self._extra_calls else None

    def ended(self, record: SpanEnd) -> StopReason | None:
        """A model span has ended; gives the limit that is broken now."""
        self._spending.add(record)
        if record.status is not SpanStatus.OK and record.attributes.get(ACTOR, Actor.AGENT) == Actor.AGENT:
            self._turns -= 1  # a call that failed is a try, not a turn
        if (
            self._limits.max_total_tokens is not None
            and self._spending.tokens > self._limits.max_total_tokens
        ):
            return StopReason.MAX_TOTAL_TOKENS
        if self._limits.max_cost is not None and (cost := self._spending.cost) is not None:
            return StopReason.MAX_COST if cost > Decimal(repr(self._limits.max_cost)) else None
        return None

    @property
    def not_held(self) -> str | None:
        """Why a limit cannot be held any more: what it counts is not known."""
        if self._limits.max_total_tokens is not None and self._spending.unmetered is not None:
            return f"{self._spending.unmetered}, so --max-total-tokens cannot be held"
        unpriced = self._spending.unpriced
        if self._limits.max_cost is not None and Actor.AGENT in unpriced:
            return f"{unpriced[Actor.AGENT]}, so --max-cost cannot be held"
        if self._budgeted and unpriced:
            return f"{next(iter(unpriced.values()))}, so --budget cannot be held"
        return None

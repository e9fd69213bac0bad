"""What models cost: a dated table, and the cost of one reply by it.

The table is data (`prices.json`, facts from the providers' own pages, each with its date and source); a
user's own file goes before it. What no entry names has no price, and what has no price has no cost: unknown
is None, never 0. `docs/limits.md` documents the format.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterable
from decimal import Decimal
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, model_validator

from atp.models.located_yaml import validated, yaml_text
from atp.protocol.base import Frozen
from atp.protocol.trace import Usage

MILLION = 1_000_000

Rate = Annotated[float, Field(ge=0, allow_inf_nan=False)]
"""USD for a million tokens."""


class Rates(Frozen):
    """USD for a million tokens of each kind; None where it is not known."""

    input: Rate
    """Read anew."""
    output: Rate
    """Written, reasoning included."""
    cached_read: Rate | None = None
    """Read from the provider's cache."""
    cached_write: Rate | None = None
    """Read and put into the cache."""

    def of(self, usage: Usage) -> Decimal | None:
        """USD of one reply; None when its tokens, or the rate of some of them, are not known.

        Tokens that the reply does not report as cached were not billed as such: they cost what input costs.
        """
        if usage.input_tokens is None or usage.output_tokens is None:
            return None
        cached = ((usage.cache_read_tokens, self.cached_read), (usage.cache_write_tokens, self.cached_write))
        plain, total = usage.input_tokens, Decimal(0)
        for tokens, rate in cached:
            if not tokens:
                continue
            if rate is None:
                return None
            plain -= tokens
            total += tokens * _exact(rate)
        if plain < 0:
            return None  # the provider's own numbers contradict each other
        return (total + plain * _exact(self.input) + usage.output_tokens * _exact(self.output)) / MILLION

    @property
    def dearest(self) -> Decimal:
        """USD for a million tokens of the dearest kind."""
        known = (self.input, self.output, self.cached_read, self.cached_write)
        return max(_exact(rate) for rate in known if rate is not None)


class LongRates(Rates):
    """The rates of a request with many input tokens: of all of its tokens, not of those beyond."""

    input_tokens: int = Field(gt=0)
    """With more input tokens than these."""


class Price(Rates):
    """What a model costs, as of when, by whom."""

    above: LongRates | None = None
    date: datetime.date
    """When the source said so."""
    source: str = Field(min_length=1)

    def cost(self, usage: Usage) -> Decimal | None:
        """USD of one reply; see `Rates.of`."""
        if self.above is not None and (usage.input_tokens or 0) > self.above.input_tokens:
            return self.above.of(usage)
        return self.of(usage)

    @property
    def most(self) -> Decimal:
        """USD that a million tokens cost at most."""
        return max(self.dearest, self.above.dearest if self.above is not None else Decimal(0))


class PriceEntry(Price):
    """One line of a table."""

    models: tuple[Annotated[str, Field(pattern="^[^/]+/.+")], ...] = Field(min_length=1)
    """`provider/model`, each a shell pattern (`*`, `?`, `[...]`), case-sensitive."""

    @property
    def price(self) -> Price:
        """What it says, without the models."""
        return Price(**self.model_dump(exclude={"models"}))


class PriceTable(Frozen):
    """Prices of models; the first entry that names a model counts."""

    prices: tuple[PriceEntry, ...] = ()

    @model_validator(mode="after")
    def _names_no_model_twice(self) -> Self:
        names = [name for entry in self.prices for name in entry.models]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"{twice[0]} has two prices")
        return self

    def price(self, model: str) -> Price | None:
        """What a model costs; None when no entry names it.

        Args:
            model: `provider/model`.
        """
        for entry in self.prices:
            if any(name == model or fnmatchcase(model, name) for name in entry.models):
                return entry.price
        return None

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a table from a file of YAML or JSON.

        Raises:
            InvalidInput: The file cannot be read or breaks the format; names file, line and key.
        """
        return validated(cls, yaml_text(path, "prices"), f"prices {path}", "give it models and their prices")


@lru_cache(maxsize=1)
def published() -> PriceTable:
    """The table that ships with ATP: list prices for text at the providers' own addresses."""
    path = Path(__file__).with_name("prices.json")
    return PriceTable.model_validate(json.loads(path.read_text(encoding="utf-8")))


def total_cost(costs: Iterable[Decimal | None]) -> Decimal | None:
    """The sum; None when there is nothing to sum, or a part is not known."""
    summands = tuple(costs)
    known = [cost for cost in summands if cost is not None]
    return sum(known, Decimal(0)) if known and len(known) == len(summands) else None


def _exact(rate: float) -> Decimal:
    return Decimal(repr(rate))  # as it is written in the table

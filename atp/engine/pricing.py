"""Which price holds for a cell's model, and which limits cannot be held without one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from atp.engine.options import RunOptions
from atp.engine.spending import Prices
from atp.models.prices import Price, PriceTable, published
from atp.models.providers import is_at_home
from atp.models.ref import ModelRef
from atp.protocol.errors import InvalidInput
from atp.protocol.spans import Actor
from atp.registry import Pairing
from atp.store.rows import CellRow

Definition: TypeAlias = Mapping[str, Any]
"""Of a cell, as frozen."""


def price_table(path: Path | None) -> PriceTable:
    """The user's own table, an empty one without a file.

    Raises:
        InvalidInput: The file cannot be read or breaks the format.
    """
    return PriceTable() if path is None else PriceTable.load(path)


def prices_of(
    pairing: Pairing, options: RunOptions, environ: Mapping[str, str], own: PriceTable
) -> dict[str, Any]:
    """What the models of a cell cost, for its definition.

    A user's own table goes before the published one, which holds at the provider's own address only, and
    never for a scripted model.

    Args:
        pairing: Ready to run.
        options: Of the run.
        environ: Where base URLs are looked up.
        own: From `price_table`.
    """

    def price(model: ModelRef | None, base_url: str | None) -> Any:
        if model is None:
            return None
        found = own.price(str(model))
        if found is None and not model.simulated and is_at_home(model, base_url, environ):
            found = published().price(str(model))
        return None if found is None else found.model_dump(mode="json")

    return {
        "price": price(pairing.model, options.base_url),
        "user_price": price(pairing.user_model, options.user_base_url or options.base_url),
    }


def by_model(cells: Iterable[Definition]) -> dict[str, Any]:
    """Model -> its price, of all the models that some cells ask.

    Args:
        cells: Their definitions, prices included.
    """
    return {model: price for cell in cells for _, model, price in _models(cell)}


def check_measured(options: RunOptions) -> None:
    """Refuse limits that are read from model spans where there are none.

    Raises:
        InvalidInput: Names the limit.
    """
    asked = {
        "--max-total-tokens": options.limits.max_total_tokens,
        "--max-cost": options.limits.max_cost,
        "--budget": options.budget,
    }
    for name, value in asked.items():
        if value is not None and not options.monitored:
            raise InvalidInput(f"{name} is held by what the monitor sees: leave out --no-monitor, or {name}")


def unpriced(options: RunOptions, cells: Iterable[Definition]) -> list[str]:
    """What is wrong with limits on cost, for models whose price is not known.

    Args:
        options: Of the run.
        cells: Their definitions, prices included.
    """
    held = {
        "--max-cost": options.limits.max_cost is not None,
        "--budget": options.budget is not None,
    }
    problems: dict[str, None] = {}
    for actor, model, price in (found for cell in cells for found in _models(cell)):
        limits = [
            name for name, set_ in held.items() if set_ and (name == "--budget" or actor is Actor.AGENT)
        ]
        if price is None and limits:
            problems[
                f"model {model!r}: its price is not known here, so {' and '.join(limits)} cannot be held; "
                "give the price with --prices FILE when the experiment is started, or leave the limit out"
            ] = None
    return list(problems)


def frozen_prices(cell: CellRow) -> Prices:
    """The prices of a cell by the models' names in spans, as frozen when the experiment was made."""
    prices = {}
    for actor, name, price in _models(cell.definition):
        model = ModelRef.parse(name)
        # The engine names a model in full, a harness as it stands in the request.
        asked = name if model.simulated or actor is not Actor.AGENT else model.name
        prices[asked] = None if price is None else Price.model_validate(price)
    return prices


def _models(cell: Definition) -> Iterator[tuple[Actor, str, Any]]:
    yield Actor.AGENT, cell["model"], cell.get("price")
    if cell.get("user") is not None:
        yield Actor.USER_SIMULATOR, cell["user"]["model"], cell.get("user_price")

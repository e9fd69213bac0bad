"""The price table, and the cost of one reply by it. Expected costs are the arithmetic beside them."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from atp.models import prices
from atp.models.prices import Price, PriceTable, published, total_cost
from atp.protocol.errors import InvalidInput
from atp.protocol.trace import Usage

DATED: dict[str, Any] = {"date": datetime.date(2026, 11, 30), "source": "a test"}
PLAIN = Price(input=2, output=8, cached_read=0.5, cached_write=2.5, **DATED)
TABLE = Path(prices.__file__).with_name("prices.json")


def test_input_and_output_have_their_own_rates() -> None:
    # 1,000 * 2 / 10^6 + 500 * 8 / 10^6
    assert PLAIN.cost(Usage(input_tokens=1000, output_tokens=500)) == Decimal("0.006")


def test_cached_tokens_are_a_part_of_the_input_and_priced_apart() -> None:
    usage = Usage(input_tokens=1000, output_tokens=0, cache_read_tokens=600, cache_write_tokens=100)
    # 300 * 2 + 600 * 0.5 + 100 * 2.5 = 1,150, in millionths
    assert PLAIN.cost(usage) == Decimal("0.00115")


def test_reasoning_is_a_part_of_the_output_and_costs_nothing_more() -> None:
    assert PLAIN.cost(Usage(input_tokens=0, output_tokens=10, reasoning_tokens=9)) == Decimal("0.00008")


@pytest.mark.parametrize(
    "usage",
    [Usage(), Usage(input_tokens=1), Usage(output_tokens=1)],
)
def test_unknown_tokens_have_no_cost_and_not_a_cost_of_zero(usage: Usage) -> None:
    assert PLAIN.cost(usage) is None


def test_cached_tokens_without_a_rate_of_theirs_have_no_cost() -> None:
    price = Price(input=2, output=8, **DATED)
    assert price.cost(Usage(input_tokens=10, output_tokens=1, cache_read_tokens=5)) is None
    assert price.cost(Usage(input_tokens=10, output_tokens=1, cache_read_tokens=0)) == Decimal("0.000028")


def test_more_cached_tokens_than_input_is_a_contradiction_and_has_no_cost() -> None:
    assert PLAIN.cost(Usage(input_tokens=1, output_tokens=1, cache_read_tokens=2)) is None


def test_a_long_request_is_priced_at_its_rates_as_a_whole() -> None:
    price = Price.model_validate(
        {**PLAIN.model_dump(), "above": {"input_tokens": 1000, "input": 4, "output": 12}}
    )
    assert price.cost(Usage(input_tokens=1000, output_tokens=0)) == Decimal("0.002")
    assert price.cost(Usage(input_tokens=1001, output_tokens=10)) == Decimal("0.004124")  # 4,004 + 120
    assert price.most == 12


def test_a_sum_with_an_unknown_part_is_unknown() -> None:
    assert total_cost([Decimal(1), Decimal(2)]) == 3
    assert total_cost([Decimal(1), None]) is None
    assert total_cost([]) is None


counts = st.integers(min_value=0, max_value=10**9)


@given(counts, counts, counts)
def test_a_cost_is_between_nothing_and_the_dearest_rate(plain: int, cached: int, output: int) -> None:
    usage = Usage(input_tokens=plain + cached, output_tokens=output, cache_read_tokens=cached)
    cost = PLAIN.cost(usage)
    assert cost is not None
    assert 0 <= cost <= (plain + cached + output) * PLAIN.most / 1_000_000


def test_the_published_table_satisfies_its_json_schema_and_names_dates_and_sources() -> None:
    document = json.loads(TABLE.read_text(encoding="utf-8"))
    schema = json.loads(TABLE.with_name("prices.schema.json").read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(schema)
    assert list(Draft202012Validator(schema).iter_errors(document)) == []
    assert all(entry.date >= datetime.date(2026, 1, 1) for entry in published().prices)
    assert all("https://" in entry.source for entry in published().prices)


def test_a_published_price_is_the_one_of_the_providers_page() -> None:
    # https://developers.openai.com/api/docs/pricing in November 2026: 1.75, cached 0.175, 14
    price = published().price("openai/gpt-5.2")
    assert price is not None
    assert (price.input, price.cached_read, price.output) == (1.75, 0.175, 14)
    assert published().price("openai/gpt-5.2-2025-12-11") == price


@pytest.mark.parametrize("model", ["openai/gpt-5.2x", "openai/x", "scripted/oracle", "google/gpt-5.2"])
def test_what_no_entry_names_has_no_price(model: str) -> None:
    assert published().price(model) is None


def test_the_first_entry_that_matches_counts_and_names_are_patterns(tmp_path: Path) -> None:
    table = tmp_path / "prices.yaml"
    table.write_text(
        """
prices:
  - {models: [scripted/oracle], input: 1, output: 2, date: 2026-11-30, source: first}
  - {models: ["scripted/*", openai/x], input: 3, output: 4, date: 2026-11-30, source: second}
""",
        encoding="utf-8",
    )
    read = PriceTable.load(table)
    found = {
        name: read.price(name) for name in ("scripted/oracle", "scripted/file:a/b.yaml", "openai/x", "a/b")
    }
    assert [price and price.source for price in found.values()] == ["first", "second", "second", None]


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ("{models: [openai/x], input: -1, output: 1, date: 2026-11-30, source: s}", "prices[1].input"),
        ("{models: [openai/x], input: 1, date: 2026-11-30, source: s}", "prices[1].output: Field required"),
        ("{models: [openai/x], input: 1, output: 1, source: s}", "prices[1].date: Field required"),
        ("{models: [x], input: 1, output: 1, date: 2026-11-30, source: s}", "prices[1].models[1]"),
        ("{models: [openai/x], input: 1, output: 1, cost: 1}", "prices[1].cost: no such key"),
        ("{models: [a/b, a/b], input: 1, output: 1, date: 2026-11-30, source: s}", "a/b has two prices"),
    ],
)
def test_a_mistake_names_file_line_and_key(tmp_path: Path, entry: str, says: str) -> None:
    table = tmp_path / "prices.yaml"
    table.write_text(f"prices:\n  - {entry}\n", encoding="utf-8")
    with pytest.raises(InvalidInput) as refused:
        PriceTable.load(table)
    assert f"prices {table}, line " in refused.value.message
    assert says in refused.value.message

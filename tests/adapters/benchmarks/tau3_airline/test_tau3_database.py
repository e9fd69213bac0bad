"""The shared database against the official way: plain dictionaries, dumped and hashed as a whole."""

from __future__ import annotations

import copy
import hashlib
import json
import warnings
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.benchmarks.tau3_airline.database import TABLES, Records
from adapters.benchmarks.tau3_airline.official import Airline
from adapters.benchmarks.tau3_airline.tools import respond
from tests.adapters.benchmarks.tau3_airline.trajectories import Call, Customers


def official_copy(airline: Airline) -> Any:
    """The database as the official environment holds it: plain dictionaries, nothing shared."""
    fresh = airline.database.fresh()
    tables = {table: copy.deepcopy(dict(getattr(fresh, table).shared)) for table in TABLES}
    return type(fresh).model_construct(**tables)


def official_hash(db: Any) -> str:
    """`tau2.utils.utils.get_dict_hash` of `db.model_dump()`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        dump = db.model_dump()
    return hashlib.sha256(json.dumps(dump, sort_keys=True, default=str).encode()).hexdigest()


def awkward(customers: Customers) -> list[Call]:
    """Calls that fail, and calls that store what their model does not allow."""
    booking, bags = customers.gold("8")[-1], customers.gold("12")[-1]
    return [
        (bags[0], {**bags[1], "total_baggages": 2.0}),
        (bags[0], {**bags[1], "total_baggages": "é"}),
        (bags[0], {**bags[1], "nonfree_baggages": None}),
        (booking[0], {**booking[1], "user_id": "nobody"}),
        ("send_certificate", {"user_id": "mia_li_3668", "amount": "100"}),
        ("update_reservation_passengers", {"reservation_id": "3RK2T9", "passengers": ["Anya", "Mei"]}),
        ("search_onestop_flight", {"origin": "ATL", "destination": "LAX", "date": "2024-05-20"}),
    ]


def test_after_any_calls_hash_and_outputs_are_those_of_a_deep_copy(
    official: Airline, customers: Customers
) -> None:
    calls = [item for task_id in customers.tasks for item in customers.gold(task_id)]
    ours, theirs = official.database.fresh(), official_copy(official)
    untouched = official_hash(theirs)
    for name, arguments in [*calls, *awkward(customers)]:
        expected = respond(official.tools(theirs), name, arguments)
        assert respond(official.tools(ours), name, arguments) == expected
    assert official.database.digest(ours) == official_hash(theirs) != untouched
    assert official.database.digest(official.database.fresh()) == untouched


TABLE = st.dictionaries(st.text(max_size=2), st.lists(st.integers(), max_size=3), max_size=6)


@given(TABLE, TABLE, st.lists(st.tuples(st.text(max_size=2), st.integers()), max_size=8))
def test_records_are_a_dictionary_that_leaves_what_it_shares_alone(
    shared: dict[str, list[int]], added: dict[str, list[int]], appended: list[tuple[str, int]]
) -> None:
    before, plain = copy.deepcopy(shared), copy.deepcopy(shared)
    records = Records(shared)
    for key, record in added.items():
        records[key], plain[key] = list(record), list(record)
    for key, number in appended:
        assert (key in records) == (key in plain)
        if key in plain:
            records[key].append(number)
            plain[key].append(number)
    assert list(records) == list(plain)
    assert len(records) == len(plain)
    assert list(records.values()) == list(plain.values())
    assert dict(records) == plain
    assert shared == before
    with pytest.raises(KeyError):
        records["no key is this long"]

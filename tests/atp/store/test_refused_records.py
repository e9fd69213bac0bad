"""A run of which a record was refused never ends as if all of it were there."""

from __future__ import annotations

import asyncio

import pytest

from atp.protocol.errors import StoreError
from atp.protocol.spans import SpanStatus
from atp.protocol.status import Status
from atp.store.store import Store
from tests.atp.store.store_samples import ended, running, span_end, span_start

FOREIGN = {"0" * 64: b"bytes that this digest does not name"}


async def test_an_end_that_shares_the_commit_of_a_refused_span_is_refused_with_it(store: Store) -> None:
    await running(store, ["run-a", "run-b"])
    refused, other, end, other_end = await asyncio.gather(
        store.record_soon({}, ends=[span_end(span_start("run-a"), status=SpanStatus.OPEN)]),
        store.record_soon({}, [span_start("run-b")]),
        store.end_attempt("run-a", ended("run-a")),
        store.end_attempt("run-b", ended("run-b")),
        return_exceptions=True,
    )
    assert isinstance(refused, StoreError)
    assert isinstance(end, StoreError)
    assert (end.code, other, other_end) == ("records_refused", None, None)
    assert store.attempt("run-a").status is None
    assert store.attempt("run-b").status is Status.COMPLETED


async def test_an_end_long_after_a_refused_body_of_the_run_is_refused(store: Store) -> None:
    await running(store, ["run-a"])
    with pytest.raises(StoreError, match="not its own"):
        await store.record_soon(FOREIGN, runs=["run-a"])
    await store.flush()
    with pytest.raises(StoreError, match="not its own") as raised:
        await store.end_attempt("run-a", ended("run-a", status=Status.LIMIT))
    assert raised.value.code == "records_refused"


async def test_a_run_with_a_refused_record_can_still_end_in_a_way_that_nobody_grades(store: Store) -> None:
    await running(store, ["run-a"])
    with pytest.raises(StoreError):
        await store.record_soon(FOREIGN, runs=["run-a"])
    await store.end_attempt("run-a", ended("run-a", status=Status.INFRA_ERROR))
    assert store.attempt("run-a").status is Status.INFRA_ERROR


async def test_the_end_of_an_attempt_is_durable_only_with_the_spans_handed_over_before(
    store: Store, url: str
) -> None:
    await running(store, ["run-a"])
    soon = store.record_soon({}, [span_start("run-a", number) for number in range(3)])
    await store.end_attempt("run-a", ended("run-a"))
    with Store.open(url, readonly=True) as reader:
        assert len(reader.spans("run-a")) == 3
    await soon


async def test_what_is_not_urgent_is_acknowledged_without_anything_urgent_behind_it(store: Store) -> None:
    await running(store, ["run-a"])
    for number in range(3):  # the writer dozes before one of them, and sleeps before another
        await store.record_soon({}, [span_start("run-a", number)])
        await asyncio.sleep(0.03 * number)
    assert len(store.spans("run-a")) == 3

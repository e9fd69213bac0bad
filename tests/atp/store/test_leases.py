"""Leases: one engine per experiment, and what becomes of work whose engine is gone."""

from __future__ import annotations

import pytest

from atp.protocol.errors import NotReady, StoreError
from atp.protocol.spans import SpanStatus
from atp.protocol.status import Status, StopReason
from atp.store.store import Store
from tests.atp.store.store_samples import (
    EXPERIMENT,
    HOLDER,
    cell,
    ended,
    experiment,
    first_try,
    grade,
    planned,
    running,
    span_end,
    span_start,
    tool_call,
)

EXPIRED = -1.0


async def test_a_live_lease_is_refused_to_another_and_names_its_holder(store: Store) -> None:
    await planned(store)
    with pytest.raises(NotReady, match=HOLDER) as raised:
        await store.acquire_lease(EXPERIMENT, "engine-b", 60)
    assert raised.value.code == "lease_held"


async def test_a_holder_may_ask_again_and_keeps_its_attempts(store: Store) -> None:
    await running(store, ["run-a"])
    assert await store.acquire_lease(EXPERIMENT, HOLDER, 60) == ()
    assert store.attempt("run-a").status is None


async def test_taking_an_expired_lease_interrupts_what_was_running(store: Store, url: str) -> None:
    await running(store, ["run-a", "run-b"])
    await store.end_attempt("run-b", ended("run-b"))
    await store.record({}, [span_start("run-a", 1), span_start("run-a", 2)])
    await store.record_call("run-a", 0, tool_call(), span_end(span_start("run-a", 2)))
    await store.renew_lease(EXPERIMENT, HOLDER, EXPIRED)
    with Store.open(url) as other:
        assert await other.acquire_lease(EXPERIMENT, "engine-b", 60) == ("run-a",)
        row = other.attempt("run-a")
        assert row.status is Status.INTERRUPTED
        assert row.trace is not None
        assert (row.trace.run_id, row.trace.stop_reason) == ("run-a", StopReason.INTERRUPTED)
        assert row.trace.tool_calls == (tool_call(),)
        assert row.trace.turns is None
        assert HOLDER in (row.trace.error.message if row.trace.error else "")
        assert [span.status for span in other.spans("run-a")] == [SpanStatus.ABORTED, SpanStatus.OK]
        assert other.attempt("run-b").status is Status.COMPLETED
        assert [entry.kind for entry in other.journal()][-2:] == ["lease_acquired", "attempt_interrupted"]


async def test_who_lost_its_lease_writes_nothing_more(store: Store, url: str) -> None:
    await planned(store, 3)
    await store.begin_attempt(first_try("run-a", 0))
    await store.begin_attempt(first_try("run-c", 2))
    await store.end_attempt("run-c", ended("run-c"))
    await store.renew_lease(EXPERIMENT, HOLDER, EXPIRED)
    with Store.open(url) as other:
        await other.acquire_lease(EXPERIMENT, "engine-b", 60)
        before = other.journal()
    for lost in (
        store.renew_lease(EXPERIMENT, HOLDER, 60),
        store.release_lease(EXPERIMENT, HOLDER),
        store.begin_attempt(first_try("run-b", 1)),
        store.record({}, [span_start("run-a")]),
        store.record_call("run-a", 0, tool_call(), span_end(span_start("run-a", 2))),
        store.end_attempt("run-a", ended("run-a")),
        store.add_grade("run-c", grade(1.0)),
        store.note("said", EXPERIMENT, {}),
    ):
        with pytest.raises(StoreError) as raised:
            await lost
        assert raised.value.code == "lease_lost"
        assert "engine-b" in raised.value.message
    assert store.spans("run-a") == []
    assert store.journal() == before


async def test_who_lost_its_lease_may_take_it_again_once_it_is_free(store: Store, url: str) -> None:
    await running(store, ["run-a"])
    await store.renew_lease(EXPERIMENT, HOLDER, EXPIRED)
    with Store.open(url) as other:
        await other.acquire_lease(EXPERIMENT, "engine-b", 60)
        await other.release_lease(EXPERIMENT, "engine-b")
    with pytest.raises(StoreError, match="no longer run by engine-a"):
        await store.note("said", EXPERIMENT, {})
    await store.acquire_lease(EXPERIMENT, HOLDER, 60)
    await store.note("said", EXPERIMENT, {})


async def test_an_expired_lease_that_nobody_took_can_be_renewed(store: Store) -> None:
    await running(store, ["run-a"])
    await store.renew_lease(EXPERIMENT, HOLDER, EXPIRED)
    await store.renew_lease(EXPERIMENT, HOLDER, 60)
    await store.end_attempt("run-a", ended("run-a"))
    assert store.attempt("run-a").status is Status.COMPLETED


async def test_a_released_lease_is_free(store: Store) -> None:
    await planned(store)
    await store.release_lease(EXPERIMENT, HOLDER)
    assert await store.acquire_lease(EXPERIMENT, "engine-b", 60) == ()


async def test_no_attempt_begins_without_a_lease(store: Store) -> None:
    await store.create_experiment(experiment(), [cell()], [])
    with pytest.raises(StoreError, match="no slot"):
        await store.begin_attempt(first_try("run-a", 0))
    await planned(store, 1, "exp-two")
    await store.release_lease("exp-two", HOLDER)
    with pytest.raises(StoreError, match="nobody"):
        await store.begin_attempt(first_try("run-a", 0, "exp-two-c0"))


async def test_an_unknown_experiment_has_no_lease(store: Store) -> None:
    with pytest.raises(StoreError, match="exp-none"):
        await store.acquire_lease("exp-none", HOLDER, 60)


async def test_only_taking_a_lease_interrupts_reading_does_not(store: Store, url: str) -> None:
    await running(store, ["run-a"])
    await store.renew_lease(EXPERIMENT, HOLDER, EXPIRED)
    with Store.open(url, readonly=True) as reader:
        assert reader.attempts(EXPERIMENT)[0].status is None

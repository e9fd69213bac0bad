"""What the store refuses ends the attempt it belongs to, as what it is."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from atp.protocol.errors import StoreError
from atp.protocol.spans import SpanEnd, SpanKind, SpanStart
from atp.store.rows import AttemptStart
from atp.store.store import Store
from tests.atp.engine.experiments import Lab

ONE: dict[str, Any] = {"tasks": ("ledger-000",)}
WAYS = pytest.mark.parametrize("workers", [1, 0], ids=["process worker", "in-memory link"])
DAMAGED = {"0" * 64: b"bytes that this digest does not name"}

Record = tuple[Mapping[str, bytes], Sequence[SpanStart], Sequence[SpanEnd], Sequence[str]]


def damage_spans(monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    """Damage a body of the first so many batches that hold the end of an agent span: the last of a run."""
    record_soon = Store.record_soon
    left = [DAMAGED] * times

    def damaging(store: Store, *record: *Record) -> asyncio.Future[None]:
        bodies, starts, ends, runs = record
        if left and any(end.start.kind is SpanKind.AGENT for end in ends):
            bodies = {**bodies, **left.pop()}
        return record_soon(store, bodies, starts, ends, runs)

    monkeypatch.setattr(Store, "record_soon", damaging)


@WAYS
async def test_an_attempt_whose_last_spans_are_refused_is_an_infra_error_whatever_its_worker_says(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    damage_spans(monkeypatch, times=1)
    outcome = await lab.run(workers=workers, **ONE)
    [attempt], [cell] = outcome["attempts"], outcome["cells"]
    assert (attempt["status"], attempt["stop_reason"], attempt["score"]) == (
        "infra_error",
        "worker_error",
        None,
    )
    assert "not its own" in attempt["error"]["message"]
    assert attempt["error"]["fault"] == "infrastructure"
    assert (cell["graded"], cell["missing"]) == (0, 1)


async def test_an_attempt_whose_spans_are_refused_is_tried_again(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    damage_spans(monkeypatch, times=1)
    outcome = await lab.run(retries=1, workers=0, **ONE)
    assert [a["status"] for a in outcome["attempts"]] == ["infra_error", "completed"]
    assert [trace.status for trace in lab.watched.ended] == ["infra_error", "completed"]


async def test_a_tool_call_that_cannot_be_stored_ends_its_attempt_at_once(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refusing(*call: object) -> None:
        raise StoreError("the disk is full")

    monkeypatch.setattr(Store, "record_call", refusing)
    outcome = await lab.run(**ONE)
    [attempt] = outcome["attempts"]
    assert (attempt["status"], attempt["error"]["message"]) == ("infra_error", "the disk is full")


async def test_an_attempt_that_may_not_begin_ends_the_experiment_and_leaves_no_attempt(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refusing(store: Store, start: AttemptStart) -> None:
        raise StoreError("the lease is another engine's", code="lease_lost")

    monkeypatch.setattr(Store, "begin_attempt", refusing)
    with pytest.raises(StoreError, match="another engine's"):
        await lab.run(workers=0, **ONE)
    with Store.open(lab.url, readonly=True) as store:
        assert store.attempts(store.experiment().id) == []

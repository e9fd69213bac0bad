"""Evidence documents: one for each run, its bytes as they were made."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import pytest
from alembic import command
from sqlalchemy import create_engine

from atp.protocol.errors import StoreError
from atp.store.migrations import configuration
from atp.store.store import Store
from tests.atp.store.store_samples import cell, ended, experiment, running, slot

RUN = "run-a"
DOCUMENT = b'{"a":1.0,"b":"\xc3\xbc"}'


async def test_a_document_is_kept_byte_for_byte(store: Store) -> None:
    await running(store, [RUN])
    await store.end_attempt(RUN, ended(RUN))
    assert store.evidence(RUN) is None
    assert await store.keep_evidence(RUN, DOCUMENT) == DOCUMENT
    assert store.evidence(RUN) == DOCUMENT


async def test_the_first_document_of_a_run_is_never_replaced(store: Store) -> None:
    await running(store, [RUN])
    await store.end_attempt(RUN, ended(RUN))
    others = [b'{"other":%d}' % number for number in range(5)]
    kept = await asyncio.gather(*(store.keep_evidence(RUN, content) for content in [DOCUMENT, *others]))
    assert set(kept) == {DOCUMENT}
    made = [entry for entry in store.journal() if entry.kind == "evidence_made"]
    assert [entry.run_id for entry in made] == [RUN]


async def test_a_run_that_has_not_ended_has_no_document(store: Store) -> None:
    await running(store, [RUN])
    with pytest.raises(StoreError, match="has not ended") as raised:
        await store.keep_evidence(RUN, DOCUMENT)
    assert raised.value.code == "evidence_not_final"
    assert store.evidence(RUN) is None


async def test_a_secret_does_not_get_into_the_store_by_a_document(store: Store) -> None:
    await running(store, [RUN])
    await store.end_attempt(RUN, ended(RUN))
    store.redactor.learn("TOKEN", "quartz-lantern-42")
    assert await store.keep_evidence(RUN, b'{"a":"quartz-lantern-42"}') == b'{"a":"[redacted:TOKEN]"}'


async def test_a_database_of_the_first_revision_gets_the_table_and_keeps_what_it_holds(
    url: str, tmp_path: Path
) -> None:
    engine = create_engine(url)
    with engine.begin() as connection:
        config = configuration()
        config.attributes["connection"] = connection
        command.upgrade(config, "0001")
    engine.dispose()
    with sqlite3.connect(tmp_path / "atp.db") as plain:
        plain.execute("INSERT INTO experiments VALUES ('exp-old', 'old', 1, ?, '{}')", ("d" * 64,))
    plain.close()
    with Store.open(url) as store:
        assert store.experiment("exp-old").name == "old"
        await store.create_experiment(experiment(), [cell()], [slot(0)])
        assert store.evidence(RUN) is None

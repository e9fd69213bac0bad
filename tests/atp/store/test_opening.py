"""Opening a database: making, upgrading, refusing."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import create_engine

from atp.protocol.errors import InvalidInput, NotReady, StoreError
from atp.store.schema import REVISION, metadata
from atp.store.store import Store
from tests.atp.store.store_samples import cell, experiment, slot


def python(code: str, *arguments: str) -> str:
    """Run code in a fresh interpreter and give what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


OPEN_AND_SAY_WHETHER_ALEMBIC = """
import sys
from atp.store.store import Store
Store.open(sys.argv[1], readonly=len(sys.argv) > 2).close()
print("alembic" in sys.modules)
"""


def test_only_the_first_open_of_a_database_imports_alembic(url: str) -> None:
    assert python(OPEN_AND_SAY_WHETHER_ALEMBIC, url) == "True"
    assert python(OPEN_AND_SAY_WHETHER_ALEMBIC, url) == "False"
    assert python(OPEN_AND_SAY_WHETHER_ALEMBIC, url, "readonly") == "False"


def test_importing_the_package_imports_no_sqlalchemy() -> None:
    assert python("import sys, atp.store; print('sqlalchemy' in sys.modules)") == "False"


def test_the_migrations_make_the_schema_that_the_code_uses(url: str, tmp_path: Path) -> None:
    Store.open(url).close()
    engine = create_engine(f"sqlite:///{tmp_path / 'from-code.db'}")
    metadata.create_all(engine)
    engine.dispose()

    def tables(path: Path) -> dict[str, set[str]]:
        with sqlite3.connect(path) as connection:
            made = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
        connection.close()
        # Constraints are made in different order; each is a line of its own.
        return {
            name: {line.strip().rstrip(",") for line in sql.splitlines()}
            for name, sql in made
            if name != "alembic_version"
        }

    assert tables(tmp_path / "atp.db") == tables(tmp_path / "from-code.db")


def test_the_newest_migration_is_the_revision_that_the_code_names() -> None:
    from alembic.script import ScriptDirectory

    from atp.store.migrations import configuration

    assert ScriptDirectory.from_config(configuration()).get_heads() == [REVISION]


def test_two_that_make_the_same_database_at_once_both_succeed(url: str) -> None:
    code = "import sys; from atp.store.store import Store; Store.open(sys.argv[1]).close(); print('open')"
    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(lambda _: python(code, url), range(3))) == ["open"] * 3


def test_reading_a_database_that_does_not_exist_is_refused_and_makes_none(url: str, tmp_path: Path) -> None:
    with pytest.raises(NotReady, match="atp run"):
        Store.open(url, readonly=True)
    assert list(tmp_path.iterdir()) == []


def test_writing_into_a_folder_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotReady, match="missing"):
        Store.open(f"sqlite:///{tmp_path / 'missing' / 'atp.db'}")


@pytest.mark.parametrize("readonly", [True, False])
def test_a_revision_from_the_future_is_refused_by_name(url: str, tmp_path: Path, readonly: bool) -> None:
    Store.open(url).close()
    with sqlite3.connect(tmp_path / "atp.db") as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.close()
    with pytest.raises(StoreError, match="9999") as raised:
        Store.open(url, readonly=readonly)
    assert raised.value.code == "unknown_revision"


@pytest.mark.parametrize("readonly", [True, False])
def test_a_database_of_something_else_is_refused_and_left_alone(
    url: str, tmp_path: Path, readonly: bool
) -> None:
    with sqlite3.connect(tmp_path / "atp.db") as connection:
        connection.execute("CREATE TABLE recipes (title TEXT)")
    connection.close()
    with pytest.raises(InvalidInput, match="recipes"):
        Store.open(url, readonly=readonly)
    with sqlite3.connect(tmp_path / "atp.db") as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("recipes",)]
    connection.close()


@pytest.mark.parametrize("readonly", [True, False])
def test_a_file_that_is_no_database_is_refused_and_left_alone(
    url: str, tmp_path: Path, readonly: bool
) -> None:
    (tmp_path / "atp.db").write_bytes(b"not a database " * 1000)
    with pytest.raises(InvalidInput, match="not a"):
        Store.open(url, readonly=readonly)
    assert (tmp_path / "atp.db").read_bytes() == b"not a database " * 1000


def test_an_empty_file_is_filled_when_written_and_refused_when_read(url: str, tmp_path: Path) -> None:
    (tmp_path / "atp.db").touch()
    with pytest.raises(NotReady, match="empty"):
        Store.open(url, readonly=True)
    Store.open(url).close()
    Store.open(url, readonly=True).close()


@pytest.mark.parametrize("address", ["sqlite://", "sqlite:///:memory:", "results.db", "sqlite:///a.db?x=1"])
def test_an_address_that_names_no_file_is_refused(address: str) -> None:
    with pytest.raises(InvalidInput, match="sqlite:///"):
        Store.open(address)


def test_another_database_is_refused_without_its_password() -> None:
    with pytest.raises(InvalidInput, match="SQLite") as raised:
        Store.open("postgresql://user:secret@host/name")
    assert "secret" not in raised.value.message


async def test_reading_changes_no_byte_of_the_database(url: str, tmp_path: Path) -> None:
    with Store.open(url) as store:
        await store.create_experiment(experiment(), [cell()], [slot(0)])
    before = (tmp_path / "atp.db").read_bytes()
    with Store.open(url, readonly=True) as reader:
        assert reader.experiment() == experiment()
        assert len(reader.slots(experiment().id)) == 1
    assert (tmp_path / "atp.db").read_bytes() == before


async def test_a_store_opened_for_reading_writes_nothing(url: str) -> None:
    Store.open(url).close()
    with Store.open(url, readonly=True) as reader:
        with pytest.raises(StoreError, match="opened for reading"):
            await reader.create_experiment(experiment(), [cell()], [slot(0)])
        assert reader.experiments() == []


async def test_a_closed_store_refuses(url: str) -> None:
    store = Store.open(url)
    store.close()
    with pytest.raises(StoreError, match="closed"):
        await store.flush()
    store.close()


def test_a_forked_process_is_told_to_open_its_own(url: str) -> None:
    code = """
import asyncio, os, sys
from atp.protocol.errors import StoreError
from atp.store.store import Store
store = Store.open(sys.argv[1])
if os.fork() == 0:
    try:
        store.post_record({})
    except StoreError as error:
        os.write(1, str(error).encode())
    os._exit(0)
os.wait()
store.close()
"""
    assert "forked process" in python(code, url)


def test_a_url_may_be_relative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with Store.open("sqlite:///./here.db") as store:
        assert store.path == Path(os.getcwd()) / "here.db"

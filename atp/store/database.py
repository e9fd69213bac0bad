"""Reaching a database: its address, its connections, its revision.

Whatever differs between databases is in this module and in `statements.py`. SQLite keeps a
write-ahead log, so that one process writes while others read; transactions that write begin as such
(`BEGIN IMMEDIATE`), so that none fails halfway for want of a lock.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import Connection, Engine, create_engine, event, inspect
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.pool import QueuePool

from atp.protocol.errors import InvalidInput, NotReady, StoreError
from atp.store.schema import REVISION

BUSY_TIMEOUT = 30.0
"""Seconds a connection waits for another process's transaction."""

_PAGE_SIZE = 16384
"""Bytes. Against SQLite's 4096, rows of 2 KB go in at half the CPU (perf/span_store.py)."""


@dataclass(frozen=True)
class Database:
    """An opened database at the revision this version knows."""

    path: Path
    """The database file."""
    bodies: Path
    """The folder of the bodies that are too large for a row; it exists once there is one."""
    writing: Engine | None
    """One connection whose transactions take the write lock at once; None when opened for reading."""
    reading: Engine
    """Connections that cannot write."""

    def dispose(self) -> None:
        """Close all connections."""
        for engine in (self.writing, self.reading):
            if engine is not None:
                engine.dispose()

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A connection in one read transaction: all that is read within belongs to one moment.

        Raises:
            StoreError: The database refused.
        """
        try:
            with self.reading.begin() as connection:
                yield connection
        except DBAPIError as error:
            raise StoreError(f"cannot read {self.path}: {error.orig}") from error


def open_database(url: str, *, readonly: bool) -> Database:
    """Open a database, and make it first when it is new and to be written to.

    Args:
        url: `sqlite:///relative.db` or `sqlite:////absolute.db`.
        readonly: Neither create nor upgrade nor write.

    Raises:
        InvalidInput: The URL is not one of a SQLite file, or the file is not ATP's.
        NotReady: There is no database to read, or its folder is missing.
        StoreError: Its revision is one this version does not know, or SQLite refused.
    """
    path = _sqlite_path(url)
    if readonly and not path.exists():
        raise NotReady(f"there is no database {path}: `atp run` makes one, `--db` names another")
    if not path.parent.is_dir():
        raise NotReady(f"the folder of the database {path} does not exist: create {path.parent}")
    writing = None if readonly else _sqlite_engine(path, readonly=False)
    reading = _sqlite_engine(path, readonly=True)
    database = Database(path, path.with_name(path.name + ".bodies"), writing, reading)
    try:
        if writing is None:
            with reading.begin() as connection:
                _require_current(connection, path)
        else:
            _use_write_ahead_log(writing)
            with writing.begin() as connection:
                _upgrade(connection, path)
    except BaseException as error:
        database.dispose()
        cause = error.orig if isinstance(error, DBAPIError) else error
        if not isinstance(cause, sqlite3.Error):
            raise
        if "not a database" in str(cause):
            raise InvalidInput(f"{path} is not a database: name another with `--db`") from error
        raise StoreError(f"cannot open the database {path}: {cause}") from error
    return database


def refusal(path: Path, error: Exception) -> StoreError:
    """What is said of a record that could not be written, and what to do where that is known.

    Args:
        path: The database.
        error: The driver's, SQLAlchemy's around it, or the file system's.
    """
    cause = error.orig if isinstance(error, DBAPIError) else error
    told = StoreError(f"{path} did not take a record: {type(cause).__name__}: {cause}")
    primary = cause.sqlite_errorcode & 0xFF if isinstance(cause, sqlite3.OperationalError) else None
    if primary == sqlite3.SQLITE_FULL or (isinstance(cause, OSError) and cause.errno == errno.ENOSPC):
        told = StoreError(
            f"{path} cannot grow, the disk is full ({cause}): make room, then `atp resume` goes on; "
            "what was acknowledged before is kept",
            code="disk_full",
        )
    elif primary == sqlite3.SQLITE_BUSY:
        told = StoreError(
            f"{path} was locked by another process for more than {BUSY_TIMEOUT:g} s ({cause}): end that, "
            "then `atp resume` goes on; what was acknowledged before is kept",
            code="database_locked",
        )
    told.__cause__ = error
    return told


def _sqlite_path(url: str) -> Path:
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        raise InvalidInput(
            f"{url!r} is not a database URL: write sqlite:///PATH, for example sqlite:///./atp.db"
        ) from error
    if parsed.get_backend_name() != "sqlite":
        shown = parsed.render_as_string(hide_password=True)
        raise InvalidInput(f"{shown} is not supported: results are kept in SQLite, sqlite:///PATH")
    if parsed.database in (None, "", ":memory:") or parsed.query:
        raise InvalidInput(
            f"{url!r} names no file: readers and the writer share a file, write sqlite:///PATH"
        )
    return Path(str(parsed.database)).absolute()


def _sqlite_engine(path: Path, *, readonly: bool) -> Engine:
    # "ro" rather than a pragma: a connection that may write also checkpoints when it closes.
    address = f"file:{quote(os.fsencode(path))}?mode={'ro' if readonly else 'rwc'}"

    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(
            address,
            uri=True,
            timeout=BUSY_TIMEOUT,
            isolation_level=None,  # transactions begin below, not where the driver guesses
            check_same_thread=False,
        )
        try:
            if not readonly:
                connection.execute(f"PRAGMA page_size={_PAGE_SIZE}")
            connection.execute("PRAGMA synchronous=NORMAL")
            connection.execute("PRAGMA foreign_keys=ON")
            connection.execute("PRAGMA cache_size=-16384")
        except BaseException:
            connection.close()
            raise
        return connection

    # The writer thread has its connection to itself; readers are few and short.
    pool = {"pool_size": 1, "max_overflow": 0} if not readonly else {"pool_size": 2, "max_overflow": 16}
    engine = create_engine("sqlite://", creator=connect, poolclass=QueuePool, **pool)
    begin = "BEGIN" if readonly else "BEGIN IMMEDIATE"

    @event.listens_for(engine, "begin")
    def _(connection: Connection) -> None:
        connection.connection.cursor().execute(begin)

    return engine


def _use_write_ahead_log(engine: Engine) -> None:
    # Changing the journal mode does not wait for locks, so two processes that make one database
    # at the same moment would otherwise fail here.
    deadline = time.monotonic() + BUSY_TIMEOUT
    raw = engine.raw_connection()
    try:
        while True:
            try:
                raw.cursor().execute("PRAGMA journal_mode=WAL")
                return
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
    finally:
        raw.close()


def _revision(connection: Connection, path: Path) -> str | None:
    tables = inspect(connection).get_table_names()
    if "alembic_version" in tables:
        found = connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()
        return None if found is None else str(found)
    if tables:
        raise InvalidInput(
            f"{path} is a database of something else (it holds {tables[0]!r}): name another with `--db`"
        )
    return None


def _upgrade(connection: Connection, path: Path) -> None:
    found = _revision(connection, path)
    if found == REVISION:
        return
    from atp.store.migrations import upgrade  # Alembic costs most of a start

    upgrade(connection, found, path)


def _require_current(connection: Connection, path: Path) -> None:
    found = _revision(connection, path)
    if found == REVISION:
        return
    if found is None:
        raise NotReady(f"the database {path} is empty: `atp run` fills it, `--db` names another")
    from atp.store.migrations import require_known  # as above

    require_known(found, path)
    raise NotReady(
        f"the database {path} is at revision {found}, this version of ATP reads {REVISION}: "
        "any command that writes, such as `atp resume`, upgrades it"
    )

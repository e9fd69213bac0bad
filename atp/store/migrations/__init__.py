"""From one revision of the schema to the next, by Alembic. Imported only when there is one to go."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection

from atp.protocol.errors import StoreError


def configuration() -> Config:
    """Alembic's configuration, without a file."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config


def require_known(revision: str, path: Path) -> None:
    """Refuse a database made by a version of ATP that is newer than this one.

    Raises:
        StoreError: No migration here has this revision.
    """
    try:
        ScriptDirectory.from_config(configuration()).get_revision(revision)
    except CommandError as error:
        raise StoreError(
            f"the database {path} is at revision {revision!r}, which this version of ATP does not know: "
            "use the version that made it, or name another database with `--db`",
            code="unknown_revision",
        ) from error


def upgrade(connection: Connection, found: str | None, path: Path) -> None:
    """Bring a database to the newest revision within the connection's transaction.

    Args:
        connection: In a transaction that holds the write lock.
        found: Its revision; None when it is empty.
        path: For the error text.

    Raises:
        StoreError: See `require_known`.
    """
    if found is not None:
        require_known(found, path)
    config = configuration()
    config.attributes["connection"] = connection
    command.upgrade(config, "head")

"""The airline's database: a fresh one for every attempt, and its official hash, at little cost.

The official environment reads 7 MB for every fresh database (0.25 s; a deep copy takes 0.3-0.8 s) and
dumps all of it for a hash (0.1-0.6 s). Here the records are shared, and one is copied when a tool
takes it; the JSON text of a record that nobody took is kept. Both give what the official way gives:
the copy is the same object to a tool, and the hash is of the same bytes.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Iterator, Mapping, ValuesView
from typing import Any

TABLES = ("flights", "reservations", "users")
"""In the order of sorted keys, as the hash wants them."""


class Records(Mapping[str, Any]):
    """One table of one attempt: id -> record. Copies a shared record when it is taken.

    `values()` gives shared records without copying: it is for reading. The only tools that use it,
    the flight searches, read a tenth of the database with every call.
    """

    def __init__(self, shared: Mapping[str, Any]) -> None:
        self.shared = shared
        self.taken: dict[str, Any] = {}

    def __getitem__(self, key: str) -> Any:
        if key not in self.taken:
            self.taken[key] = copy.deepcopy(self.shared[key])
        return self.taken[key]

    def __setitem__(self, key: str, record: Any) -> None:
        self.taken[key] = record

    def __contains__(self, key: object) -> bool:
        return key in self.taken or key in self.shared

    def __iter__(self) -> Iterator[str]:
        yield from self.shared
        yield from (key for key in self.taken if key not in self.shared)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def values(self) -> ValuesView[Any]:
        """The records, for reading."""
        return {**self.shared, **self.taken}.values()


class Database:
    """The database as the package has it, which never changes, and what is made of it.

    Args:
        pristine: The official `FlightDB`; taken over.
    """

    def __init__(self, pristine: Any) -> None:
        self._kind = type(pristine)
        self._tables: dict[str, dict[str, Any]] = {table: getattr(pristine, table) for table in TABLES}
        self._entries = {
            table: {key: _entry(key, record) for key, record in sorted(records.items())}
            for table, records in self._tables.items()
        }

    def fresh(self) -> Any:
        """A `FlightDB` of one's own."""
        return self._kind.model_construct(**{name: Records(self._tables[name]) for name in TABLES})

    def digest(self, db: Any) -> str:
        """The official hash: SHA-256 of the whole database dumped to JSON with sorted keys.

        Args:
            db: One of `fresh`, whatever tools have done to it.
        """
        tables = ", ".join(f'"{table}": {self._table(table, getattr(db, table).taken)}' for table in TABLES)
        return hashlib.sha256(f"{{{tables}}}".encode()).hexdigest()

    def _table(self, table: str, taken: Mapping[str, Any]) -> str:
        pristine = self._entries[table]
        entries = pristine | {key: _entry(key, record) for key, record in taken.items()}
        keys = entries if len(entries) == len(pristine) else sorted(entries)
        return f"{{{', '.join([entries[key] for key in keys])}}}"


def _entry(key: str, record: Any) -> str:
    # A tool may store what does not fit the model ("2" for 2); it is dumped as it is, without a warning.
    text = json.dumps(record.model_dump(warnings=False), sort_keys=True, default=str)
    return f"{json.dumps(key)}: {text}"

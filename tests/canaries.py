"""Secrets that tests plant, and the search for them in every byte that a run leaves."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path

SHAPED = "sk-proj-9Zq4vT7mXw2Lk8RbN5Jd3HcF"
"""Found by its shape."""
KNOWN = "quartz-lantern-42-meadow"
"""Found by its value only: in a secret variable of the engine's environment."""
NAMED = "plum-orchard-velvet"
"""Found by the name beside it only."""
LEFT = (SHAPED, KNOWN, NAMED, SHAPED[8:], KNOWN[3:])


def contents(folders: Iterable[Path]) -> Mapping[str, bytes]:
    """All files below the folders, and the bodies within databases as they were before deflating."""
    found: dict[str, bytes] = {}
    for folder in folders:
        for path in folder.rglob("*"):
            if not path.is_file():
                continue
            found[str(path)] = path.read_bytes()
            if path.suffix == ".db":
                with sqlite3.connect(path) as database:
                    for digest, encoding, content in database.execute(
                        "SELECT digest, encoding, content FROM bodies"
                    ):
                        if encoding == "zlib":
                            found[f"{path}/{digest}"] = zlib.decompress(content)
                database.close()
    return found


def places_of(secrets: Iterable[str], found: Mapping[str, bytes]) -> list[tuple[str, str]]:
    """(secret, where it was found), of all that were."""
    return [
        (secret, place)
        for secret in secrets
        for place, content in found.items()
        if secret.encode() in content
    ]

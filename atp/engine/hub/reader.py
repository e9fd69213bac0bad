"""The script that reads a split with the `datasets` library, in an environment that has nothing else of ours.

    python reader.py REQUEST ROWS OUTCOME

REQUEST is JSON: dataset, config, split, revision, offline. ROWS becomes JSON Lines. OUTCOME becomes
JSON: `{"rows", "library"}`, or `{"refused", "detail"}` where `refused` is one of the words below.
Anything else that goes wrong is a traceback and an exit code.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class Refused(Exception):
    """The hub or the library says no.

    Args:
        word: `missing`, `gated`, `revision`, `selection` (no such config or split), `offline`,
            `unreachable` or `unreadable` (the rows are no plain data).
        detail: What was said.
    """

    def __init__(self, word: str, detail: object) -> None:
        super().__init__(str(detail))
        self.word = word


def main(request: Path, rows: Path, outcome: Path) -> None:
    """Read, write, and say how it went."""
    asked = json.loads(request.read_text(encoding="utf-8"))
    try:
        said = _fetch(asked, rows)
    except Refused as refusal:
        said = {"refused": refusal.word, "detail": str(refusal)}
    outcome.write_text(json.dumps(said), encoding="utf-8")


def _fetch(asked: Mapping[str, Any], rows: Path) -> dict[str, Any]:
    if not asked["offline"]:
        _check_access(asked)
    library = importlib.import_module("datasets")
    split = _load(library, asked)
    _check_revision(split, asked)
    with rows.open("w", encoding="utf-8", newline="\n") as lines:
        for row in split:
            try:
                lines.write(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n")
            except (TypeError, ValueError) as error:
                raise Refused("unreadable", error) from error
    return {"rows": len(split), "library": library.__version__}


def _check_access(asked: Mapping[str, Any]) -> None:
    """One question whose refusals have types; the library gives them back as sentences only."""
    hub = importlib.import_module("huggingface_hub")
    errors = importlib.import_module("huggingface_hub.errors")
    where = hub.hf_hub_url(asked["dataset"], "README.md", repo_type="dataset", revision=asked["revision"])
    try:
        hub.get_hf_file_metadata(where)
    except errors.EntryNotFoundError:
        return
    except errors.GatedRepoError as error:
        raise Refused("gated", error) from error
    except errors.RepositoryNotFoundError as error:
        raise Refused("missing", error) from error
    except errors.RevisionNotFoundError as error:
        raise Refused("revision", error) from error
    except errors.HfHubHTTPError as error:
        raise Refused("unreachable", error) from error


def _load(library: Any, asked: Mapping[str, Any]) -> Any:
    try:
        return library.load_dataset(
            asked["dataset"],
            asked["config"],
            split=asked["split"],
            revision=asked["revision"],
            keep_in_memory=False,  # the files it keeps say which commit it gave
        )
    except ConnectionError as error:
        raise Refused("offline" if asked["offline"] else "unreachable", error) from error
    except (ValueError, RuntimeError, library.exceptions.DataFilesNotFoundError) as error:
        # An unknown config or split, a data set that is a script, one without files of data.
        raise Refused("offline" if asked["offline"] else "selection", error) from error


def _check_revision(split: Any, asked: Mapping[str, Any]) -> None:
    """The library keeps what it built in a folder named by the commit, and may give back an older one."""
    commits = {Path(file["filename"]).parent.name for file in split.cache_files}
    if commits != {asked["revision"]}:
        raise Refused(
            "offline" if asked["offline"] else "revision",
            f"the library gave commit {', '.join(sorted(commits)) or 'unknown'}",
        )


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))

"""Fetch one split of a hub data set into a folder, as plain JSON Lines with a receipt.

`HF_ENDPOINT`, `HF_TOKEN`, `HF_HOME` and `HF_HUB_OFFLINE` mean what they mean to Hugging Face's own
libraries. Whether the hub answers is asked first: the library itself tries for half a minute, and
its environment is not worth making for nothing.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from atp.engine import virtual_environment
from atp.engine.hub.environment import recipe
from atp.engine.virtual_environment import python_in
from atp.protocol.cards import HubSource
from atp.protocol.errors import AtpError, InfrastructureError, InvalidInput, NotReady
from atp.protocol.hub_rows import RECEIPT, ROWS, Receipt

DEFAULT_ENDPOINT = "https://huggingface.co"
PROBE_TIMEOUT = 10.0
"""Seconds for the hub's first answer."""
TRACEBACK_KEPT = 2000
"""Characters of an unforeseen failure's output that stand in the error."""

_TRUE = frozenset({"1", "ON", "YES", "TRUE"})
"""As `huggingface_hub.constants` reads its variables."""
_QUIET = {
    "DO_NOT_TRACK": "1",
    "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
}


async def fetch(source: HubSource, folder: Path, command: str) -> None:
    """Fill a folder with the rows and their receipt.

    Args:
        source: What to fetch.
        folder: Empty.
        command: What fetches it, to be named in errors.

    Raises:
        NotReady: The hub wants a token, or it is offline mode and nothing is kept here.
        InvalidInput: The hub has no such data set, revision, config or split, or not as many rows.
        InfrastructureError: The hub or the package index cannot be reached.
    """
    offline = os.environ.get("HF_HUB_OFFLINE", "").upper() in _TRUE
    if not offline:
        await _probe(source, command)
    python = python_in(await virtual_environment.make(recipe(command)))
    with tempfile.TemporaryDirectory() as scratch:
        said = await _read(python, source, folder / ROWS, Path(scratch), offline)
    if "refused" in said:
        raise _refusal(source, said["refused"], said["detail"], command)
    if said["rows"] != source.rows:
        raise InvalidInput(
            f"data {source.name!r}: {_what(source)} has {said['rows']} rows, and not the {source.rows} that "
            "are pinned; nothing was kept. Check which hub HF_ENDPOINT names"
        )
    content = await asyncio.to_thread((folder / ROWS).read_bytes)
    receipt = Receipt(
        **source.model_dump(include={"dataset", "config", "split", "revision", "rows"}),
        sha256=hashlib.sha256(content).hexdigest(),
        library=said["library"],
    )
    (folder / RECEIPT).write_text(receipt.model_dump_json(indent=2) + "\n", encoding="utf-8")


def _endpoint() -> str:
    return (os.environ.get("HF_ENDPOINT") or DEFAULT_ENDPOINT).rstrip("/")


def _host() -> str:
    """The endpoint without what a URL may hold of a user's secrets."""
    parts = urlsplit(_endpoint())
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


async def _probe(source: HubSource, command: str) -> None:
    url = f"{_endpoint()}/datasets/{source.dataset}/resolve/{source.revision}/README.md"
    timeout = aiohttp.ClientTimeout(total=PROBE_TIMEOUT)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout, trust_env=True) as session,
            session.head(url, allow_redirects=False) as response,
        ):
            # Who asks has no token here: every other answer is the library's to understand.
            trouble = f"answers {response.status}" if response.status >= 500 else None
    except aiohttp.InvalidURL:
        raise InvalidInput(f"HF_ENDPOINT: {_host()!r} is no URL of a hub; unset it, or correct it") from None
    except aiohttp.ClientSSLError:
        return  # The library may know certificates that are not known here.
    except TimeoutError:
        trouble = f"gives no answer within {PROBE_TIMEOUT:g} s"
    except (aiohttp.ClientError, OSError) as error:
        trouble = f"cannot be reached ({type(error).__name__})"
    if trouble is not None:
        raise _unreachable(source, trouble, command)


def _unreachable(source: HubSource, trouble: str, command: str) -> InfrastructureError:
    return InfrastructureError(
        f"data {source.name!r}: the hub at {_host()} {trouble}. When it can be reached, type again: "
        f"{command} (HF_ENDPOINT names another hub; HF_HUB_OFFLINE=1 takes what its cache here holds)"
    )


async def _read(python: Path, source: HubSource, rows: Path, scratch: Path, offline: bool) -> dict[str, Any]:
    request, outcome = scratch / "request.json", scratch / "outcome.json"
    asked = source.model_dump(include={"dataset", "config", "split", "revision"})
    request.write_text(json.dumps(asked | {"offline": offline}), encoding="utf-8")
    environ = {**os.environ, **_QUIET}
    if not offline:
        # Built anew from the pinned commit: the library falls back to whatever it built before.
        environ["HF_DATASETS_CACHE"] = str(scratch / "built")
    process = await asyncio.create_subprocess_exec(
        python,
        "-I",
        Path(__file__).with_name("reader.py"),
        request,
        rows,
        outcome,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=environ,
        cwd=scratch,  # a folder named like the data set, where one stands, would go before the hub's
    )
    try:
        output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        raise InfrastructureError(
            f"data {source.name!r}: {_what(source)} cannot be read; `datasets` ended with "
            f"{process.returncode}: {_without_token(output.decode(errors='replace'))[-TRACEBACK_KEPT:]}"
        )
    said: dict[str, Any] = json.loads(outcome.read_text(encoding="utf-8"))
    return said


def _refusal(source: HubSource, word: str, detail: str, command: str) -> AtpError:
    subject = f"data {source.name!r}: the hub at {_host()}"
    detail = " ".join(_without_token(detail).split())
    match word:
        case "gated":
            return NotReady(
                f"{subject} gives {source.dataset} only to who accepted its terms: accept them at "
                f"{_host()}/datasets/{source.dataset}, set HF_TOKEN to a token of that account, and type "
                f"again: {command}"
            )
        case "missing":
            return InvalidInput(
                f"{subject} has no data set {source.dataset!r}, or hides it from this account: check which "
                f"hub HF_ENDPOINT names; if it is private, set HF_TOKEN, and type again: {command}"
            )
        case "revision":
            return InvalidInput(
                f"{subject} does not give {source.dataset} at revision {source.revision}, which is the one "
                "pinned: check which hub HF_ENDPOINT names; if its history was rewritten, a newer version "
                f"of the adapter has to pin another ({detail})"
            )
        case "selection":
            return InvalidInput(
                f"{subject} has {source.dataset}, but config {source.config!r}, split {source.split!r} "
                f"cannot be taken from it: {detail}"
            )
        case "offline":
            return NotReady(
                f"data {source.name!r}: HF_HUB_OFFLINE is set and {_what(source)} is not in the cache of "
                f"`datasets` on this machine: unset it and type again: {command} ({detail})"
            )
        case "unreadable":
            return InvalidInput(f"data {source.name!r}: {_what(source)} has a row that is no JSON: {detail}")
        case _:
            return _unreachable(source, f"broke off: {detail}", command)


def _what(source: HubSource) -> str:
    return f"{source.dataset} ({source.config}, {source.split}) at {source.revision}"


def _without_token(text: str) -> str:
    token = os.environ.get("HF_TOKEN")
    return text.replace(token, "…") if token else text

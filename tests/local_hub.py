"""A hub of data sets on the loopback interface, which answers as the Hugging Face hub does.

It speaks what `huggingface_hub` and `datasets` ask for when they load a split: resolve, revision and
tree, with the headers they go by (`X-Repo-Commit`, `ETag`, `X-Error-Code`). It runs in a thread, so
that synchronous tests and the command line can use it.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from adapters.benchmarks.gsm8k.card import DATA as GSM8K
from atp.engine.home import home
from atp.protocol.cards import HubSource

ROWS_OF_GSM8K = Path(__file__).resolve().parents[2] / "shared" / "data" / "gsm8k" / "test.jsonl"
"""The 1,319 test items of openai/grade-school-math."""
PATIENCE = 20.0
"""Seconds that starting and stopping may take on a busy machine; both take milliseconds."""


@dataclass
class Repository:
    """A data set as its owner pushed it."""

    commit: str
    files: Mapping[str, bytes]
    token: str | None = None
    """Whoever shows none, or another, finds the repository gated."""


class LocalHub:
    """The server; what it holds may change at any time."""

    def __init__(self) -> None:
        self.repositories: dict[str, Repository] = {}
        """`owner/name` -> the data set."""
        self.failing = False
        """Answer everything with 503."""
        self.asked: list[str] = []
        """Method and path of every request, in order of arrival."""
        self.url = ""
        self._loop = asyncio.new_event_loop()
        # A daemon: whatever goes wrong here, it does not keep the tests' process from ending.
        self._thread = threading.Thread(target=self._loop.run_forever, name="local-hub", daemon=True)
        self._runner: web.ServerRunner

    def hold(self, source: HubSource, rows: bytes, *, token: str | None = None) -> None:
        """Hold a data set of one config and one split.

        Args:
            source: Its name, config, split and commit.
            rows: JSON Lines.
            token: See `Repository`.
        """
        # Laid out like the real one: a folder for each config, its files named by the split.
        place = f"{source.config}/{source.split}"
        splits = [{"split": source.split, "path": f"{place}-*"}]
        card = json.dumps({"configs": [{"config_name": source.config, "data_files": splits}]})
        files = {
            "README.md": f"---\n{card}\n---\n# Rows\n".encode(),
            f"{place}-00000-of-00001.jsonl": rows,
        }
        self.repositories[source.dataset] = Repository(source.revision, files, token)

    def start(self) -> None:
        """Listen on a free port."""
        self._thread.start()
        self._runner = asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(PATIENCE)
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    def stop(self) -> None:
        """Close the port and every connection."""
        asyncio.run_coroutine_threadsafe(self._runner.cleanup(), self._loop).result(PATIENCE)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE)
        self._loop.close()

    async def _listen(self) -> web.ServerRunner:
        runner = web.ServerRunner(web.Server(self._handle, access_log=None), shutdown_timeout=0.05)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        return runner

    async def _handle(self, request: web.BaseRequest) -> web.Response:
        self.asked.append(f"{request.method} {request.path}")
        if self.failing:
            return web.Response(status=503)
        match request.path.strip("/").split("/"):
            case ["datasets", owner, name, "resolve", revision, *file]:
                return self._in(
                    request, f"{owner}/{name}", revision, lambda held: _file(held, "/".join(file))
                )
            case ["api", "datasets", owner, name]:
                return self._in(request, f"{owner}/{name}", None, lambda held: _info(f"{owner}/{name}", held))
            case ["api", "datasets", owner, name, "revision", revision]:
                return self._in(
                    request, f"{owner}/{name}", revision, lambda held: _info(f"{owner}/{name}", held)
                )
            case ["api", "datasets", owner, name, "tree", revision, *folder]:
                return self._in(
                    request, f"{owner}/{name}", revision, lambda held: _tree(held, "/".join(folder))
                )
            case _:
                return web.json_response({"error": "Not Found"}, status=404)

    def _in(self, request: web.BaseRequest, dataset: str, revision: str | None, answer: Any) -> web.Response:
        held = self.repositories.get(dataset)
        if held is None:
            return _error(404, "RepoNotFound", "Repository not found")
        if held.token is not None and request.headers.get("Authorization") != f"Bearer {held.token}":
            return _error(401, "GatedRepo", f"Access to dataset {dataset} is restricted.")
        if revision not in (None, held.commit):
            return _error(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        response: web.Response = answer(held)
        return response


def _file(held: Repository, name: str) -> web.Response:
    content = held.files.get(name)
    if content is None:
        return _error(404, "EntryNotFound", "Entry not found")
    headers = {"X-Repo-Commit": held.commit, "ETag": f'"{_object_id(content)}"'}
    return web.Response(body=content, headers=headers)


def _info(dataset: str, held: Repository) -> web.Response:
    return web.json_response(
        {
            "id": dataset,
            "sha": held.commit,
            "siblings": [{"rfilename": name} for name in held.files],
            "private": False,
            "gated": "auto" if held.token else False,
            "disabled": False,
            "tags": [],
            "downloads": 0,
            "likes": 0,
        }
    )


def _tree(held: Repository, folder: str) -> web.Response:
    inside = {name: content for name, content in held.files.items() if _parent(name) == folder}
    folders = {_parent(name) for name in held.files} - {""}
    return web.json_response(
        [
            *(
                {"type": "directory", "oid": _object_id(name.encode()), "size": 0, "path": name}
                for name in sorted(folders)
                if _parent(name) == folder
            ),
            *(
                {"type": "file", "oid": _object_id(content), "size": len(content), "path": name}
                for name, content in inside.items()
            ),
        ]
    )


def _parent(path: str) -> str:
    """The folder that a path lies in; the repository's own is the empty one."""
    return path.rpartition("/")[0]


def _object_id(content: bytes) -> str:
    return hashlib.sha1(content).hexdigest()


def _error(status: int, code: str, message: str) -> web.Response:
    headers = {"X-Error-Code": code, "X-Error-Message": message}
    return web.json_response({"error": message}, status=status, headers=headers)


def rows_of_gsm8k() -> bytes:
    """The real rows; a test that wants them says so where they are not."""
    if not ROWS_OF_GSM8K.is_file():
        pytest.skip(f"the rows of gsm8k are not here: {ROWS_OF_GSM8K}")
    return ROWS_OF_GSM8K.read_bytes()


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalHub]:
    """A hub that holds nothing yet, as the one this process asks, and a home where nothing is fetched.

    Environments are those of all tests.
    """
    environments = home() / "envs"
    environments.mkdir(parents=True, exist_ok=True)
    own = tmp_path / "home"
    own.mkdir()
    (own / "envs").symlink_to(environments)
    local = LocalHub()
    local.start()
    for name in ("HF_DATASETS_CACHE", "HF_DATASETS_OFFLINE", "HF_HUB_CACHE", "HF_HUB_OFFLINE", "HF_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ATP_HOME", str(own))
    monkeypatch.setenv("HF_ENDPOINT", local.url)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "huggingface"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    yield local
    local.stop()


@pytest.fixture
def gsm8k_hub(hub: LocalHub) -> LocalHub:
    """The hub, with the real rows of `openai/gsm8k`."""
    hub.hold(GSM8K, rows_of_gsm8k())
    return hub

"""A worker says once that it is warm: after its first attempt, when the harness's SDK is loaded."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from atp.engine import workers
from atp.worker.host import WorkerHost
from tests.atp.engine.experiments import Lab


async def test_a_worker_is_warm_once_after_its_first_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab, ended = Lab(tmp_path), []
    warm = functools.partial(WorkerHost, on_warm=lambda: ended.append(len(lab.watched.started)))
    monkeypatch.setattr(workers, "WorkerHost", warm)
    await lab.run(count=3, concurrency=1, workers=0)
    assert ended == [1]

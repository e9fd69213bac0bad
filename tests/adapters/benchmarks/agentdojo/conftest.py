from __future__ import annotations

import asyncio
import fcntl
import hashlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from adapters.benchmarks.agentdojo.card import CARD
from atp.engine import environments
from atp.engine.home import home
from atp.engine.virtual_environment import ask
from tests.adapters.benchmarks.agentdojo.office import Office, office

PAIRS = (
    "banking/user_task_0/injection_task_2",
    "banking/user_task_5/injection_task_0",
    "slack/user_task_7/injection_task_1",
    "slack/user_task_18/injection_task_5",
    "travel/user_task_3/injection_task_6",
    "workspace/user_task_0/injection_task_0",
    "workspace/user_task_18/injection_task_3",
)
"""All four suites; silence that passes; gold that reads what the attacker wrote; security by traces; an email
and a calendar event, which take the time from the clock."""


@pytest.fixture(scope="session")
def agentdojo_python() -> Path:
    """The interpreter of AgentDojo's environment, made once for all tests."""
    return asyncio.run(environments.create(CARD)).python


@pytest.fixture(scope="session")
def official(agentdojo_python: Path) -> Any:
    """What `official_verdicts.py` says; worked out once for an environment, and kept beside it."""
    script = Path(__file__).with_name("official_verdicts.py")
    digest = hashlib.sha256(script.read_bytes() + "".join(PAIRS).encode()).hexdigest()[:12]
    folder = home() / "test-data"
    folder.mkdir(parents=True, exist_ok=True)
    kept = folder / f"{agentdojo_python.parent.parent.name}-{digest}.json"
    with kept.with_suffix(".lock").open("w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.is_file():
            partial = kept.with_suffix(".partial")
            partial.write_bytes(ask(agentdojo_python, script, *PAIRS))
            partial.rename(kept)
    return json.loads(kept.read_text(encoding="utf-8"))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def there(agentdojo_python: Path, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Office]:
    """The benchmark with its user tasks, in one worker for a module's tests."""
    async with office(tmp_path_factory.mktemp("agentdojo")) as opened:
        yield opened

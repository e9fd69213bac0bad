"""Tests of which a run takes a share, another one each day: `@pytest.mark.sampled(N)` on a parametrized test.

`N` of its cases run, chosen by a seed that the head of the report prints; `ATP_SAMPLE_SEED=SEED` runs the
same ones again, and `ATP_SAMPLE=all` every one. Cases with a mark of their own beside it are chosen among
likewise, so that what runs always is simply not marked.
"""

from __future__ import annotations

import os
from collections import defaultdict
from datetime import UTC, datetime
from random import Random

import pytest

SEED, SHARE = "ATP_SAMPLE_SEED", "ATP_SAMPLE"


def pytest_configure(config: pytest.Config) -> None:
    """Choose the seed once: the processes of a distributed run inherit it."""
    config.addinivalue_line("markers", "sampled(n): n of the cases run, chosen by a seed that changes daily")
    os.environ.setdefault(SEED, str(datetime.now(UTC).toordinal()))


def pytest_report_header() -> str:
    """Tell the seed."""
    if os.environ.get(SHARE) == "all":
        return "sampled tests: all of them"
    return f"sampled tests: chosen by {SEED}={os.environ[SEED]}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is not chosen."""
    if os.environ.get(SHARE) == "all":
        return
    cases: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("sampled") is not None:
            cases[item.nodeid.partition("[")[0]].append(item)
    left_out = {item for name, found in cases.items() for item in _left_out(name, found)}
    if left_out:
        config.hook.pytest_deselected(items=sorted(left_out, key=lambda item: item.nodeid))
        items[:] = [item for item in items if item not in left_out]


def _left_out(name: str, found: list[pytest.Item]) -> list[pytest.Item]:
    mark = found[0].get_closest_marker("sampled")
    if mark is None:
        raise ValueError(f"{name} is not marked")
    shuffled = sorted(found, key=lambda item: item.nodeid)
    Random(f"{os.environ[SEED]} {name}").shuffle(shuffled)
    return shuffled[int(mark.args[0]) :]

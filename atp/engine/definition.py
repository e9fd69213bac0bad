"""What an experiment is frozen as: all that can change the outcome of an attempt, as plain data."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from atp import registry
from atp.engine import environments
from atp.engine.options import RunOptions
from atp.engine.scripts import script_digest
from atp.protocol.benchmark import Benchmark
from atp.protocol.json_text import encode
from atp.protocol.task import TaskInput
from atp.store.reader import StoreReader

BUILT_IN = "adapters.benchmarks"
"""The package that holds the benchmarks that come with ATP, each a module or a package of its own."""


def experiment_definition(
    options: RunOptions,
    pairings: Sequence[registry.Pairing],
    tasks: Mapping[str, Sequence[TaskInput]],
    stored: StoreReader | None,
) -> dict[str, Any]:
    """The definition of an experiment.

    Args:
        options: What was asked for.
        pairings: One for each cell, ready to run.
        tasks: Benchmark -> its chosen tasks.
        stored: Holds the runs that replays repeat; may be None where there is no replay.
    """
    return {
        "atp_version": version("agent-task-protocol"),
        "options": options.frozen(),
        "cells": [
            _cell_definition(pairing, tasks[pairing.benchmark_name], options.repeats, stored)
            for pairing in pairings
        ],
        "tasks": {
            name: {task.task_id: task_digest(task) for task in chosen} for name, chosen in tasks.items()
        },
    }


def _cell_definition(
    pairing: registry.Pairing, tasks: Sequence[TaskInput], repeats: int, stored: StoreReader | None
) -> dict[str, Any]:
    user = pairing.user_model
    python = pairing.environment.python
    assert python is not None  # a pairing without problems has an interpreter
    packages = environments.packages(python)
    card, factory = pairing.harness, pairing.harness.factory
    return {
        **grading_definition(pairing),
        "harness": card.name,
        "sdk": {name: packages.get(name) for name in dict.fromkeys((card.package, card.distribution))},
        "factory": None if factory is None else {"path": factory.path, "sha256": factory.sha256},
        "model": str(pairing.model),
        "script": script_digest(pairing.model, pairing, tasks, repeats, stored),
        "dialect": None if pairing.dialect is None else str(pairing.dialect),
        "user": None
        if user is None
        else {
            "model": str(user),
            "script": script_digest(user, pairing, tasks, repeats, stored),
            "data": None
            if pairing.benchmark.card.user_data is None
            else pairing.benchmark.card.user_data.sha256,
        },
    }


def grading_definition(pairing: registry.Pairing) -> dict[str, Any]:
    """The part of a cell's definition that a grade depends on, once the attempt has ended."""
    card = pairing.benchmark.card
    return {
        "benchmark": pairing.benchmark_name,
        "dataset": {
            "id": card.dataset,
            "config": card.config,
            "split": card.split,
            "revision": card.revision,
        },
        "grader_version": pairing.benchmark.grader_version,
        "adapter": _sources_digest(type(pairing.benchmark)),
        "requirements": environments.pins(card),
    }


def task_digest(task: TaskInput) -> str:
    """SHA-256 of a task, gold included."""
    return hashlib.sha256(encode(task)).hexdigest()


def _sources_digest(benchmark: type[Benchmark]) -> str:
    """SHA-256 of a benchmark's own sources: prompts, tool schemas and rules are written there.

    Of the module it stands in, or of all modules of the package, where that is the benchmark's own.
    """
    module = Path(inspect.getfile(benchmark))
    package = benchmark.__module__.rpartition(".")[0]
    sources = [module] if package in ("", BUILT_IN) else sorted(module.parent.rglob("*.py"))
    digest = hashlib.sha256()
    for source in sources:
        digest.update(source.relative_to(module.parent).as_posix().encode())
        digest.update(hashlib.sha256(source.read_bytes()).digest())
    return digest.hexdigest()

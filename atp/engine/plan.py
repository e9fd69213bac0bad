"""From options to a frozen experiment: every cell resolved, every task chosen, nothing started yet."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import product
from typing import Any

import rfc8785

from atp import registry
from atp.engine.definition import experiment_definition
from atp.engine.options import RunOptions
from atp.engine.pricing import by_model, check_measured, price_table, prices_of, unpriced
from atp.engine.sampling import sample, select
from atp.engine.scripts import check_script, stored_runs
from atp.engine.user_pairing import NOOP
from atp.protocol.errors import InvalidInput, NotReady
from atp.protocol.redaction import Redactor
from atp.protocol.task import TaskInput
from atp.store.rows import CellRow, ExperimentRow, NewSlot


@dataclass(frozen=True)
class PlannedCell:
    """One benchmark, harness and model, and the tasks they are run on."""

    row: CellRow
    pairing: registry.Pairing
    tasks: Sequence[TaskInput]


@dataclass(frozen=True)
class Plan:
    """An experiment that could start now."""

    experiment: ExperimentRow
    cells: Sequence[PlannedCell]
    slots: Sequence[NewSlot]
    options: RunOptions


def plan(options: RunOptions, environ: Mapping[str, str], database: str | None = None) -> Plan:
    """Resolve and freeze. Starts nothing and spends nothing.

    Args:
        options: What was asked for.
        environ: Where provider keys and base URLs are looked up.
        database: URL of the database that holds the runs which `scripted/replay:RUN` repeats.

    Raises:
        NotReady: Something is missing for one of the cells; every problem is named.
        UsageError: A name, option or file that is wrong.
    """
    check_measured(options)
    combinations = list(product(options.benchmarks, options.harnesses, options.models))
    pairings = [resolve(options, *names, environ) for names in combinations]
    check_ready(pairings)
    tasks = chosen_tasks(options, pairings)
    chosen = [(pairing, tasks[pairing.benchmark_name]) for pairing in pairings]
    return freeze(options, chosen, environ, database)


def check_ready(pairings: Sequence[registry.Pairing]) -> None:
    """See that nothing is missing.

    Raises:
        NotReady: Something is; every problem is named.
    """
    problems = list(dict.fromkeys(problem for pairing in pairings for problem in pairing.problems))
    if problems:
        raise NotReady("\n".join(problems))


def freeze(
    options: RunOptions,
    chosen: Sequence[tuple[registry.Pairing, Sequence[TaskInput]]],
    environ: Mapping[str, str],
    database: str | None = None,
) -> Plan:
    """An experiment of these pairings, each on its own tasks.

    Args:
        options: What was asked for.
        chosen: Ready pairings, and the tasks of each.
        environ: Where base URLs are looked up, which say whose prices hold.
        database: See `plan`.

    Raises:
        NotReady: A limit on cost that cannot be held, since a price is not known.
        UsageError: A script that has nothing to say to a task, or a user who would never end.
    """
    pairings = [pairing for pairing, _ in chosen]
    with stored_runs(pairings, database) as stored:
        for pairing, tasks in chosen:
            for model in (pairing.model, pairing.user_model):
                check_script(model, pairing, tasks, options.repeats, stored)
        _check_ending(options)
        definition = experiment_definition(options, pairings, _tasks_of(chosen), stored)
    own_prices = price_table(options.prices)
    experiment_id = f"exp-{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"
    cells: list[PlannedCell] = []
    for index, (pairing, tasks) in enumerate(chosen):
        frozen = {**definition["cells"][index], **prices_of(pairing, options, environ, own_prices)}
        cells.append(PlannedCell(_cell_row(experiment_id, index, pairing, frozen), pairing, tasks))
    refused = unpriced(options, [cell.row.definition for cell in cells])
    if refused:
        raise NotReady("\n".join(refused))
    definition["prices"] = by_model([cell.row.definition for cell in cells])
    # Without secrets before it is digested: a digest of one could be found by trying.
    definition["options"] = Redactor.of_environment(environ).value(definition["options"])
    experiment = ExperimentRow(
        id=experiment_id,
        name=options.name,
        created_at=datetime.now(UTC),
        definition=definition,
        digest=hashlib.sha256(rfc8785.dumps(definition)).hexdigest(),
    )
    return Plan(experiment, cells, list(_interleaved_slots(cells, options.repeats)), options)


def resolve(
    options: RunOptions, benchmark: str, harness: str, model: str, environ: Mapping[str, str]
) -> registry.Pairing:
    """One cell's pairing under these options; see `registry.resolve`."""
    return registry.resolve(
        benchmark,
        harness,
        model,
        benchmark_options=options.benchmark_options,
        harness_options=options.harness_options,
        python=options.python,
        in_process=options.workers == 0,
        base_url=options.base_url,
        user_model=options.user_model,
        user_base_url=options.user_base_url,
        environ=environ,
    )


def chosen_tasks(
    options: RunOptions, pairings: Sequence[registry.Pairing]
) -> Mapping[str, Sequence[TaskInput]]:
    """Benchmark -> the tasks that these options choose of it.

    Raises:
        UnknownName: There is no task of a name that was asked for.
    """
    tasks: dict[str, Sequence[TaskInput]] = {}
    for pairing in pairings:
        if pairing.benchmark_name not in tasks:
            loaded = pairing.benchmark.load(pairing.data)
            tasks[pairing.benchmark_name] = (
                select(loaded, options.tasks)
                if options.tasks
                else sample(loaded, options.count, options.seed)
            )
    return tasks


def _tasks_of(
    chosen: Sequence[tuple[registry.Pairing, Sequence[TaskInput]]],
) -> Mapping[str, Sequence[TaskInput]]:
    """Benchmark -> what any of its cells is run on."""
    found: dict[str, dict[str, TaskInput]] = {}
    for pairing, tasks in chosen:
        found.setdefault(pairing.benchmark_name, {}).update({task.task_id: task for task in tasks})
    return {name: list(each.values()) for name, each in found.items()}


def _cell_row(
    experiment_id: str, index: int, pairing: registry.Pairing, definition: Mapping[str, Any]
) -> CellRow:
    return CellRow(
        id=f"{experiment_id}-{index}",
        experiment_id=experiment_id,
        index=index,
        benchmark=pairing.benchmark_name,
        harness=pairing.harness.name,
        model=str(pairing.model),
        simulated=pairing.simulated,
        mixed=False,
        definition=definition,
    )


def _check_ending(options: RunOptions) -> None:
    if options.user_model == NOOP and options.limits.max_turns is None:
        raise InvalidInput(f"user model {NOOP!r} never ends a conversation: give --max-turns as well")


def _interleaved_slots(cells: Sequence[PlannedCell], repeats: int) -> list[NewSlot]:
    # Cells take turns, so that a provider's good and bad hours fall on all of them alike.
    slots: list[NewSlot] = []
    longest = max((len(cell.tasks) for cell in cells), default=0)
    for repeat, place in product(range(repeats), range(longest)):
        for cell in cells:
            if place < len(cell.tasks):
                index = repeat * len(cell.tasks) + place
                slots.append(
                    NewSlot(
                        id=f"{cell.row.id}-{index}",
                        cell_id=cell.row.id,
                        index=index,
                        task=cell.tasks[place],
                        repeat=repeat,
                        seed=None,
                    )
                )
    return slots

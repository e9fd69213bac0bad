"""Starting an experiment, and taking up one that is there."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from atp.engine.budget import budget_of
from atp.engine.drift import refusal
from atp.engine.home import home
from atp.engine.lease import held
from atp.engine.options import RunOptions
from atp.engine.plan import Plan, resolve
from atp.engine.pricing import unpriced
from atp.engine.resume import drift, fresh, options_of, remaining
from atp.engine.run import Run, RunEvents
from atp.protocol.errors import NotReady
from atp.protocol.redaction import Redactor
from atp.store.rows import ExperimentRow
from atp.store.store import Store

OnStart = Callable[[Run], None]
"""Gets the run before it starts, so that a signal can interrupt it."""


async def start(store: Store, plan: Plan, events: RunEvents, on_start: OnStart) -> None:
    """Store a plan's experiment and run it."""
    _learn(store.redactor, plan.options)
    await store.create_experiment(plan.experiment, [cell.row for cell in plan.cells], plan.slots)
    async with held(store, plan.experiment.id):
        run = Run(store, fresh(plan), plan.options, os.environ, home() / "logs" / plan.experiment.id, events)
        on_start(run)
        await run.run()


async def resume(
    store: Store,
    ref: str | None,
    changes: Mapping[str, Any],
    events: RunEvents,
    on_start: OnStart,
    *,
    allow_drift: bool = False,
) -> str:
    """Grade what is ungraded and run the slots that have no gradable attempt.

    Args:
        store: Open for writing.
        ref: The experiment; None is the newest.
        changes: Options that are given anew, see `options_of`: those of `FREE_ON_RESUME` as one likes,
            secrets, which are not stored, as they are now; others have to be what they were, or
            `allow_drift` is asked for. A budget that is not given anew stays as it was set last; prices
            stay as they were frozen.
        events: Who watches.
        on_start: Gets the run before it starts.
        allow_drift: Go on although something that can change an outcome has changed; the cells it
            touches are marked as mixed.

    Returns:
        The experiment's id.

    Raises:
        NotReady: Something it needs is missing now, or (`drift`) is another than it was frozen with; or
            (`lease_held`) another engine runs it.
        InvalidInput: A change that would make other attempts.
        UnknownName: There is no such experiment.
    """
    experiment = store.experiment(ref)
    # First of all: what another engine still does would be counted as left to do.
    async with held(store, experiment.id):
        await _resume(store, experiment, changes, events, on_start, allow_drift)
    return experiment.id


async def _resume(
    store: Store,
    experiment: ExperimentRow,
    changes: Mapping[str, Any],
    events: RunEvents,
    on_start: OnStart,
    allow_drift: bool,
) -> None:
    budget = changes.get("budget")
    budget = budget_of(store, experiment.id) if budget is None else budget
    options = options_of(experiment, {**changes, "budget": budget})
    _learn(store.redactor, options)
    cells = store.cells(experiment.id)
    pairings = {
        cell.id: resolve(options, cell.benchmark, cell.harness, cell.model, os.environ) for cell in cells
    }
    work = remaining(store, experiment, pairings, budget)
    if work.slots:
        problems = dict.fromkeys(problem for pairing in pairings.values() for problem in pairing.problems)
        problems.update(dict.fromkeys(unpriced(options, [cell.definition for cell in cells])))
        if problems:
            raise NotReady("\n".join(problems))
    found = drift(experiment, cells, options, pairings, work, store) if work.slots or work.ungraded else []
    if found and not allow_drift:
        raise NotReady(refusal(experiment.id, found), code="drift")
    if found:
        mixed = [cell.id for cell in cells if any(difference.touches(cell) for difference in found)]
        await store.mark_mixed(experiment.id, mixed, [str(difference) for difference in found])
    run = Run(store, work, options, os.environ, home() / "logs" / experiment.id, events)
    on_start(run)
    await run.run()


def _learn(redactor: Redactor, options: RunOptions) -> None:
    redactor.learn_all(os.environ)
    redactor.learn_all(options.benchmark_options)
    redactor.learn_all(options.harness_options)

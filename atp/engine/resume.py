"""What is left to do for an experiment: slots without a gradable attempt, answers without a score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from atp.engine.options import RunOptions
from atp.engine.plan import Plan
from atp.engine.run import OpenSlot, Ungraded, Work
from atp.registry import Pairing
from atp.store.rows import AttemptRow, CellRow, ExperimentRow
from atp.store.store import Store


def fresh(plan: Plan) -> Work:
    """All of a new plan."""
    return Work(
        experiment_id=plan.experiment.id,
        pairings={cell.row.id: cell.pairing for cell in plan.cells},
        slots=[OpenSlot(slot.id, slot.cell_id, slot.task, tries=0) for slot in plan.slots],
    )


def options_of(experiment: ExperimentRow, pace: Mapping[str, object]) -> RunOptions:
    """The options an experiment was frozen with, and those that may be chosen anew."""
    return RunOptions.model_validate({**experiment.definition["options"], "name": experiment.name, **pace})


def changed_agents(cells: Sequence[CellRow], pairings: Mapping[str, Pairing]) -> list[str]:
    """The agents of the user's own whose source is not the one that the experiment was frozen with."""
    problems = []
    for cell in cells:
        factory = pairings[cell.id].harness.factory
        if factory is not None and factory.sha256 != cell.definition["factory"]["sha256"]:
            problems.append(
                f"harness {cell.harness!r}: {factory.file} has changed since the experiment began; "
                "bring the old file back, or start a new experiment"
            )
    return problems


def remaining(store: Store, experiment: ExperimentRow, pairings: Mapping[str, Pairing]) -> Work:
    """What a stored experiment still needs.

    Args:
        store: Open.
        experiment: Which.
        pairings: By cell id, ready to run.
    """
    tried: dict[str, list[AttemptRow]] = {}
    for attempt in store.attempts(experiment.id):
        tried.setdefault(attempt.slot.id, []).append(attempt)
    slots: list[OpenSlot] = []
    ungraded: list[Ungraded] = []
    for slot in store.slots(experiment.id):
        attempts = tried.get(slot.id, [])
        gradable = [a for a in attempts if a.status is not None and a.status.gradable]
        if not gradable:
            last = max((attempt.try_number for attempt in attempts), default=0)
            slots.append(OpenSlot(slot.id, slot.cell_id, store.task(slot), last))
        for attempt in gradable:
            if attempt.trace is not None and (attempt.grade is None or attempt.grade.score is None):
                ungraded.append(Ungraded(attempt.run_id, slot.cell_id, store.task(slot), attempt.trace))
    return Work(experiment.id, pairings, slots, ungraded)

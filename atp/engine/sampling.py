"""Which tasks are run: sampling without replacement by seed over stable ids."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from atp.protocol.errors import UnknownName
from atp.protocol.names import nearest
from atp.protocol.task import TaskInput


def sample(tasks: Sequence[TaskInput], count: int | None, seed: int) -> list[TaskInput]:
    """Choose tasks at random, in the data set's order.

    Each id has a fixed place in an order that the seed decides, and the first `count` are taken:
    a larger sample of the same seed contains the smaller one, on every machine and Python.

    Args:
        tasks: All tasks, with distinct ids.
        count: How many; None, or more than there are, takes all.
        seed: Any integer.
    """
    if count is None or count >= len(tasks):
        return list(tasks)
    chosen = {task.task_id for task in sorted(tasks, key=lambda task: _place(task.task_id, seed))[:count]}
    return [task for task in tasks if task.task_id in chosen]


def select(tasks: Sequence[TaskInput], ids: Sequence[str]) -> list[TaskInput]:
    """The tasks with these ids, in the order asked for.

    Raises:
        UnknownName: An id nothing has; says the nearest.
    """
    by_id = {task.task_id: task for task in tasks}
    for task_id in ids:
        if task_id not in by_id:
            raise UnknownName(f"none of the {len(by_id)} tasks is {task_id!r}{nearest(task_id, by_id)}")
    return [by_id[task_id] for task_id in dict.fromkeys(ids)]


def _place(task_id: str, seed: int) -> bytes:
    return hashlib.sha256(f"{seed}\0{task_id}".encode()).digest()

"""Scripts that solve the tasks of the ledger, with what a script can have and the oracle cannot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from atp.protocol.task import TaskInput


def steps(task: TaskInput, failed_tries: Sequence[int] = ()) -> list[dict[str, Any]]:
    """Replies that solve a task: one call each, an answer to every line of its user.

    Args:
        task: Of the ledger.
        failed_tries: HTTP statuses that the second request gets before its reply.
    """
    assert task.expected is not None
    calls: list[dict[str, Any]] = [
        {"tool_calls": [{"name": action.name, "arguments": dict(action.arguments)}]}
        for action in task.expected.actions
    ]
    calls[1]["faults"] = [{"status": status} for status in failed_tries]
    answer = {"text": "\n".join(task.expected.outputs)}
    if task.instruction:
        return [*calls, answer]
    return [*calls[:2], {"text": "The money is in the account."}, *calls[2:], answer]


def write_script(path: Path, by_task: Mapping[str, list[dict[str, Any]]]) -> str:
    """Write a script; gives the model's name."""
    script = {"tasks": [{"match": task, "steps": said} for task, said in by_task.items()]}
    path.write_text(yaml.safe_dump(script), encoding="utf-8")
    return f"scripted/file:{path}"

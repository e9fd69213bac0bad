"""The official rule: database times communication, over endings by user or agent.

As `tau2/evaluator` of v1.0.1 has it: `evaluator.py` (endings, product), `evaluator_env.py` with
`Environment.set_state` (replay), `evaluator_communicate.py`, `evaluator_action.py`.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue, TypeAdapter

from adapters.benchmarks.tau3_airline.official import Airline
from adapters.benchmarks.tau3_airline.tools import respond
from atp.protocol.errors import BenchmarkError
from atp.protocol.status import Status, StopReason
from atp.protocol.task import Expected, ExpectedAction
from atp.protocol.trace import TaskTrace, ToolCall

OFFICIAL_ENDINGS = frozenset({StopReason.USER_STOP, StopReason.TRANSFER, StopReason.ANSWERED, None})
"""Of a completed run. A transfer is one of the official user's ways to stop; an agent that answers
without a user to hear it has stopped; None is an answer given to be graded, with no run behind it."""


REWARD_BASIS: list[JsonValue] = ["DB", "COMMUNICATE"]
"""Of all 50 tasks."""

_COMPARED: TypeAdapter[list[list[str] | None]] = TypeAdapter(list[list[str] | None])


@dataclass(frozen=True, slots=True)
class Components:
    """The parts of the reward, 0 or 1 each."""

    db: float
    communicate: float
    action: float
    """Diagnostic: whether every gold action was called. No part of the reward."""

    @property
    def reward(self) -> float:
        """The official product."""
        return self.db * self.communicate


def ended_officially(trace: TaskTrace) -> bool:
    """Whether the run ended in a way that is graded; any other gives 0 and no components."""
    return trace.status in (None, Status.COMPLETED) and trace.stop_reason in OFFICIAL_ENDINGS


def messages(trace: TaskTrace) -> Sequence[str]:
    """What the agent said to its user, message by message."""
    return trace.replies or (() if trace.final_answer is None else (trace.final_answer,))


def unsaid(outputs: Sequence[str], said: Sequence[str]) -> Sequence[str]:
    """The required strings that stand in no message."""
    normal = [message.lower().replace(",", "") for message in said]
    return [output for output in outputs if not any(output.lower() in message for message in normal)]


def components(airline: Airline, expected: Expected, trace: TaskTrace) -> Components:
    """The parts of the reward of a run that ended officially.

    Args:
        airline: The official code and data.
        expected: The task's gold.
        trace: The run.

    Raises:
        BenchmarkError: A replayed write does not give what it gave in the run.
    """
    return Components(
        db=float(replayed_digest(airline, trace.tool_calls) == gold_digest(airline, expected.actions)),
        communicate=float(not unsaid(expected.outputs, messages(trace))),
        action=float(all(_called(expected, at, trace.tool_calls) for at in range(len(expected.actions)))),
    )


def gold_digest(airline: Airline, actions: Sequence[ExpectedAction]) -> str:
    """The hash of a fresh database after the gold actions; worked out once for each task.

    Raises:
        BenchmarkError: A gold write fails; in the pinned data none does.
    """
    return _gold_digest(airline, json.dumps([[action.name, dict(action.arguments)] for action in actions]))


@functools.lru_cache(maxsize=256)
def _gold_digest(airline: Airline, actions: str) -> str:
    db = airline.database.fresh()
    tools = airline.tools(db)
    for name, arguments in json.loads(actions):
        if airline.writes(name):
            response = respond(tools, name, arguments)
            if response.error:
                raise BenchmarkError(f"the gold action {name} fails: {response.content}")
    return airline.database.digest(db)


def replayed_digest(airline: Airline, calls: Sequence[ToolCall]) -> str:
    """The hash of a fresh database after the run's write calls, failed ones among them.

    Raises:
        BenchmarkError: A call's output differs from the recorded one.
    """
    db = airline.database.fresh()
    tools = airline.tools(db)
    for call in calls:
        # Arguments that are no object never reached the tool.
        if not airline.writes(call.name) or not isinstance(call.arguments, dict):
            continue
        replayed = respond(tools, call.name, call.arguments).content
        recorded = call.result if call.error is None else call.error
        if _parsed(replayed) != _parsed(recorded):
            raise BenchmarkError(
                f"{call.name} ({call.id}) gave another output when it was replayed: "
                f"{replayed[:500]!r}, recorded {str(recorded)[:500]!r}"
            )
    return airline.database.digest(db)


def _parsed(output: JsonValue) -> Any:
    if not isinstance(output, str):
        return output
    try:
        return json.loads(output)
    except ValueError:
        return output


def _called(expected: Expected, at: int, calls: Sequence[ToolCall]) -> bool:
    gold = expected.actions[at]
    only = _compared_arguments(expected)[at]
    return any(
        call.name == gold.name
        and isinstance(call.arguments, dict)
        and _agree(gold.arguments, call.arguments, call.arguments if only is None else only)
        for call in calls
    )


def _agree(gold: Mapping[str, Any], called: Mapping[str, Any], names: Iterable[str]) -> bool:
    return all((name in gold, gold.get(name)) == (name in called, called.get(name)) for name in names)


def _compared_arguments(expected: Expected) -> Sequence[Sequence[str] | None]:
    """For each gold action the arguments that count; None where all of the call's do."""
    return _COMPARED.validate_python(expected.verifier["compare_args"])

"""The official grade of a run: `TaskSuite.run_task_with_pipeline` over the run's calls and its answer.

The pipeline that it is given replays what was recorded, so a stored run is graded without the agent.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from adapters.benchmarks.agentdojo.choice import Place
from adapters.benchmarks.agentdojo.official import Official
from atp.protocol.errors import BenchmarkError
from atp.protocol.trace import CUT_OFF, TaskTrace, ToolCall

_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d{6})?")
"""As a tool writes one."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the official code says."""

    utility: bool
    """The user's task was done."""
    security: bool | None
    """The attacker's goal was reached: true is bad. None where there was no attack."""


def verdict(official: Official, place: Place, trace: TaskTrace) -> Verdict:
    """Grade a run. Blocks for about a tenth of a second.

    Raises:
        BenchmarkError: A replayed call does not give what it gave in the run.
    """
    injection = official.injection_task(place)
    utility, security = official.suite(place).run_task_with_pipeline(
        _Replay(official, trace),
        official.user_task(place),
        injection,
        official.injections(place),
        environment=official.environment(place),
    )
    return Verdict(bool(utility), None if injection is None else bool(security))


class _Replay:
    """A pipeline of the package that makes the recorded calls and gives the recorded answer."""

    name = "replay"

    def __init__(self, official: Official, trace: TaskTrace) -> None:
        self._official = official
        self._trace = trace

    def query(
        self,
        query: str,
        runtime: Any,
        env: Any,
        messages: Sequence[Any] = (),
        extra_args: Mapping[str, Any] | None = None,
    ) -> tuple[str, Any, Any, Sequence[Any], Mapping[str, Any]]:
        """See `BasePipelineElement.query` of the package."""
        said = list(messages)
        for recorded in self._trace.tool_calls:
            if not isinstance(recorded.arguments, dict):
                continue  # it never reached the tool
            call = self._official.call(recorded.name, copy.deepcopy(recorded.arguments), recorded.id)
            said.append({"role": "assistant", "content": None, "tool_calls": [call]})
            if recorded.name in runtime.functions:
                self._repeat(runtime, env, call, recorded)
        # A text even where there is no answer: without one the official loop would ask again.
        answer = {"type": "text", "content": self._trace.final_answer or ""}
        said.append({"role": "assistant", "content": [answer], "tool_calls": None})
        return query, runtime, env, said, extra_args or {}

    def _repeat(self, runtime: Any, env: Any, call: Any, recorded: ToolCall) -> None:
        response = self._official.respond(runtime, env, call)
        if recorded.error == CUT_OFF:
            return  # it was made; what it gave is not known
        now = response.content if response.error is None else response.error
        then = recorded.result if recorded.error is None else recorded.error
        if (response.error is None) != (recorded.error is None) or not same(str(then), now):
            raise BenchmarkError(
                f"{recorded.name} ({recorded.id}) gave another output when it was replayed: "
                f"{now[:500]!r}, recorded {str(then)[:500]!r}"
            )


def same(recorded: str, replayed: str) -> bool:
    """Whether two outputs are equal, but for moments that were taken from the clock.

    Those are known by their microseconds: no moment of the data, and none that an agent can ask for in the
    formats of the tools, has any.
    """
    if recorded == replayed:
        return True
    then, now = _MOMENT.findall(recorded), _MOMENT.findall(replayed)
    if len(then) != len(now) or _MOMENT.sub("", recorded) != _MOMENT.sub("", replayed):
        return False
    return all(a == b or "." in a or "." in b for a, b in zip(then, now, strict=True))

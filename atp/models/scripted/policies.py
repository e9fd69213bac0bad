"""What a scripted model decides to say: pure functions of what the request holds.

A policy keeps no state between requests. The same request, sent again after a lost connection,
gets the same step; only the response id is new.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, Protocol, TypeAlias

from pydantic import Field, TypeAdapter, ValidationError

from atp.models.ref import ModelRef
from atp.models.scripted.recording import Recording
from atp.models.scripted.replay import Replay
from atp.models.scripted.script import Script, ScriptStep
from atp.models.scripted.steps import (
    Refusal,
    RequestView,
    Step,
    StepCall,
    wire_arguments,
)
from atp.protocol.base import Frozen, JsonObject
from atp.protocol.errors import InvalidInput
from atp.protocol.task import Expected, ExpectedAction, TaskInput
from atp.protocol.trace import Usage

NOOP_SENTENCE = "This sentence was written without reading the question."
"""What `noop` says: no digit, no single letter, no yes or no that an extraction could pick up."""

DONE_SENTENCE = "Everything that was asked for has been done."
"""What `oracle` says at the end where the task expects no words."""


class Policy(Protocol):
    """Decides the reply to a request."""

    verbatim: ClassVar[bool]
    """Whether it hears and says things in the harness's own way; else requests and replies are in the
    plain idiom."""

    def step(self, view: RequestView) -> Step:
        """The reply.

        Raises:
            Refusal: The policy has no reply to this request; an error goes out instead.
        """


@dataclass(frozen=True, slots=True)
class Oracle:
    """Makes the expected calls one after the other, then says the expected outputs.

    How far it has come is the number of calls the request holds results for. A user who speaks
    on after the last output hears the outputs again: the last reply is the answer.
    """

    verbatim: ClassVar[bool] = False

    actions: Sequence[ExpectedAction]
    outputs: Sequence[str]
    call_prefix: str

    def step(self, view: RequestView) -> Step:
        """See `Policy.step`. A request that allows no tool gets the text at once."""
        answered = {message.tool_call_id for message in view.messages if message.role == "tool"}
        if len(answered) >= len(self.actions) or not view.tools:
            return Step(text="\n".join(self.outputs) if self.outputs else DONE_SENTENCE)
        action = self.actions[len(answered)]
        if all(tool.name != action.name for tool in view.tools):
            raise Refusal(
                400,
                "tool_not_offered",
                f"scripted/oracle has to call {action.name!r}, but the request offers "
                f"{', '.join(tool.name for tool in view.tools)}",
            )
        call = StepCall(
            f"{self.call_prefix}{len(answered) + 1}", action.name, wire_arguments(action.arguments)
        )
        return Step(tool_calls=(call,))


@dataclass(frozen=True, slots=True)
class Noop:
    """Says `NOOP_SENTENCE` whatever it is asked."""

    verbatim: ClassVar[bool] = False

    def step(self, view: RequestView) -> Step:
        """See `Policy.step`."""
        return Step(text=NOOP_SENTENCE)


@dataclass(frozen=True, slots=True)
class Scripted:
    """Follows the steps of a script; the position is the number of replies the request holds."""

    verbatim: ClassVar[bool] = False

    steps: Sequence[ScriptStep]
    call_prefix: str

    def step(self, view: RequestView) -> Step:
        """See `Policy.step`. Past the last step comes an error, never silence."""
        position = sum(message.role == "assistant" for message in view.messages)
        if position >= len(self.steps):
            raise Refusal(
                400,
                "script_exhausted",
                f"the script has {len(self.steps)} steps, and the request already holds {position} replies",
            )
        planned = self.steps[position]
        return Step(
            text=planned.text,
            reasoning=planned.reasoning,
            tool_calls=tuple(
                StepCall(
                    call.id or f"{self.call_prefix}{position + 1}_{number}",
                    call.name,
                    call.arguments_text
                    if call.arguments_text is not None
                    else wire_arguments(call.arguments or {}),
                )
                for number, call in enumerate(planned.tool_calls, 1)
            ),
            usage=Usage(**planned.usage.model_dump()) if planned.usage else None,
            finish_reason=planned.finish_reason,
            position=position,
            faults=planned.faults,
        )


class OraclePlan(Frozen):
    """`{"kind": "oracle", "expected": {...}}`."""

    kind: Literal["oracle"]
    expected: Expected


class NoopPlan(Frozen):
    """`{"kind": "noop"}`."""

    kind: Literal["noop"]


class ScriptPlan(Frozen):
    """`{"kind": "script", "script": {...}, "task_id": "..."}`."""

    kind: Literal["script"]
    script: Script
    task_id: str


class ReplayPlan(Frozen):
    """`{"kind": "replay", "recording": {...}}`."""

    kind: Literal["replay"]
    recording: Recording


Plan: TypeAlias = Annotated[OraclePlan | NoopPlan | ScriptPlan | ReplayPlan, Field(discriminator="kind")]

_PLAN: TypeAdapter[OraclePlan | NoopPlan | ScriptPlan | ReplayPlan] = TypeAdapter(Plan)


def policy_from(data: object, session_id: str) -> Policy:
    """The policy that plain data describes.

    Args:
        data: One of `OraclePlan`, `NoopPlan`, `ScriptPlan`, `ReplayPlan` as plain data.
        session_id: Makes the ids of tool calls differ between sessions.

    Raises:
        InvalidInput: The data describe no policy, the script has no steps for the task, or the
            recording cannot be repeated.
    """
    try:
        plan = _PLAN.validate_python(data, strict=False)
    except ValidationError as error:
        # Without the input: an oracle's plan holds gold.
        details = "; ".join(
            f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}"
            for problem in error.errors(include_url=False, include_input=False)
        )
        raise InvalidInput(f"no policy of a scripted model: {details}") from error
    prefix = f"call_{hashlib.sha256(session_id.encode()).hexdigest()[:8]}_"
    match plan:
        case OraclePlan():
            return Oracle(plan.expected.actions, plan.expected.outputs, prefix)
        case NoopPlan():
            return Noop()
        case ScriptPlan():
            return Scripted(plan.script.steps_for(plan.task_id), prefix)
        case ReplayPlan():
            return Replay(plan.recording)


def policy_for(ref: ModelRef, task: TaskInput, script: Script | None = None) -> JsonObject:
    """What `ScriptedEndpoint.open` takes for one attempt at a task; for a replay see `replay_policy`.

    Args:
        ref: A scripted model that repeats no stored run.
        task: The task with its gold.
        script: The loaded script of a `file:` model, so that a file is read once per experiment.

    Raises:
        InvalidInput: The oracle has no gold to follow, or a `file:` model comes without script.
    """
    if ref.name == "noop":
        return {"kind": "noop"}
    if ref.name == "oracle":
        if task.expected is None:
            raise InvalidInput(
                f"scripted/oracle cannot do task {task.task_id!r}: it has no `expected`; "
                "use scripted/noop or scripted/file:PATH"
            )
        return {
            "kind": "oracle",
            "expected": task.expected.model_dump(mode="json", include={"actions", "outputs"}),
        }
    if script is None:
        raise InvalidInput(f"{ref}: its script has not been loaded")
    return {"kind": "script", "script": script.model_dump(mode="json"), "task_id": task.task_id}


def replay_policy(recording: Recording) -> JsonObject:
    """What `ScriptedEndpoint.open` takes for one attempt that repeats a stored run.

    Raises:
        InvalidInput: See `Replay`.
    """
    Replay(recording)
    return {"kind": "replay", "recording": recording.model_dump(mode="json")}

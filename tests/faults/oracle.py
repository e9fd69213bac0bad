"""What has to hold under every fault, whatever the fixture says of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from atp.models.scripted.script import ScriptCall
from atp.models.scripted.steps import wire_arguments
from atp.protocol.errors import Fault
from atp.protocol.spans import SpanKind
from monitor import vocabulary as v
from monitor.records.arguments import altered
from tests.faults.fault_experiment import Tried
from tests.faults.fixture import WireFault


def violations(fault: WireFault, tries: Sequence[Tried]) -> list[str]:
    """What does not hold, each as a sentence."""
    return [f"{fault.name}: {text}" for tried in tries for text in _violations(fault, tried)]


def _violations(fault: WireFault, tried: Tried) -> Iterator[str]:
    yield from _unseen_repairs(fault, tried)
    yield from _lost_calls(tried)
    yield from _scores_of_others(tried)
    error = tried.trace.error
    if error is not None and error.unclassified:
        yield f"the status table does not know {error.classes}"


def _unseen_repairs(fault: WireFault, tried: Tried) -> Iterator[str]:
    """A tool that ran with other arguments than the model wrote, and nothing says so."""
    written = [(call.name, _text(call)) for step in fault.steps for call in step.tool_calls]
    checks = tried.trace.checks
    named = checks.native_behaviour if checks is not None else ()
    for call in tried.trace.tool_calls:
        as_written = any(name == call.name and not altered(text, call.arguments) for name, text in written)
        if call.error is None and not as_written:
            said = f"arguments_altered_by_harness: call {call.id} ({call.name})"
            if not any(text.startswith(said) for text in named):
                yield f"{call.name} ran with {call.arguments}, which nobody wrote, and it is not said"


def _text(call: ScriptCall) -> str:
    return wire_arguments(call.arguments or {}) if call.arguments_text is None else call.arguments_text


def _lost_calls(tried: Tried) -> Iterator[str]:
    """A call of a reply that could be read, and neither binding nor spans know of it."""
    known = {call.id for call in tried.trace.tool_calls}
    for span in tried.spans:
        if span.kind is not SpanKind.MODEL:
            continue
        known.update(span.attributes.get(v.ANNOUNCED_CALL_IDS) or ())  # type: ignore[arg-type]  # a list of ids
        for message in tried.bodies.get(span.bodies.get(v.OUTPUT_MESSAGES, ""), ()):
            known.update(part["id"] for part in message["parts"] if part["type"] == "tool_call")
    for request in tried.requests:
        for call in request["tool_calls"]:
            if call["id"] not in known:
                yield f"call {call['id']} of {call['name']} is in no record but the endpoint's"


def _scores_of_others(tried: Tried) -> Iterator[str]:
    """A score for what was not the agent's doing."""
    error, grade = tried.trace.error, tried.grade
    if grade is not None and error is not None and error.fault is not Fault.AGENT:
        yield f"a score of {grade.score}, where the fault is the {error.fault}'s"

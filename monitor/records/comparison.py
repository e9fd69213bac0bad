"""The comparison of records that are independent of each other.

Four witnesses can speak of a run: the endpoint's own log, the model spans, the calls at the binding,
and the harness's own counts. Model calls are matched by response id, tool calls by call id, or by
tool and number where the harness hands on no id. What explains itself is no difference: tries that
failed on the client's side and were answered all the same, tools that belong to the harness, calls
that the harness itself refuses, calls of the last reply when the run ended before they could be made.
What a harness does by its nature is listed apart. Everything else is named, with ids and both values.
A record that does not exist is unavailable, and never agreement.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from atp.protocol.records import ModelCallRecord
from atp.protocol.status import StopReason
from atp.protocol.trace import RecordCheck, TaskTrace, ToolCall
from monitor.records.arguments import AlteredArguments, altered_arguments
from monitor.records.executions import Executions
from monitor.records.harness_counts import calls_and_harness
from monitor.records.nature import Nature
from monitor.records.requests import past
from monitor.records.responses import endpoint_and_spans


def compare(
    endpoint: Sequence[ModelCallRecord] | None,
    spans: Sequence[ModelCallRecord] | None,
    binding: Sequence[ToolCall] | None,
    harness: TaskTrace | None,
    *,
    rejected: Collection[str] = (),
    altered: Sequence[AlteredArguments] = (),
    nature: Nature | None = None,
) -> RecordCheck:
    """Compare what exists.

    Args:
        endpoint: The endpoint's log of the attempt, in order; None when there is none.
        spans: From `model_calls`; None without a monitor.
        binding: The calls that went through the binding; None when there is no binding.
        harness: What the harness says of itself; a record only if it has counts of its own. None when
            it did not come to its own end.
        rejected: From `rejected_calls`.
        altered: Calls of which the binding got other arguments than the model wrote.
        nature: What the harness does by its nature; None when it does nothing of the kind.
    """
    nature = nature or Nature()
    counts = None if harness is None or _has_no_counts(harness) else harness
    present = {"endpoint": endpoint, "spans": spans, "binding": binding, "harness": counts}
    differences, native = altered_arguments(altered)
    compared = 0
    if endpoint is not None and spans is not None:
        compared += 1
        differences += endpoint_and_spans(endpoint, spans, nature, ended=harness is not None)
    # Which calls the harness refused only the spans tell.
    if endpoint is not None and (nature.history == "whole" or spans is not None):
        differences += past(_agents(endpoint), rejected, nature)
    witness, calls = ("spans", spans) if spans is not None else ("endpoint", endpoint)
    if calls is not None:
        agents = _agents(calls)
        if binding is not None:
            compared += 1
            finished = harness is not None and harness.stop_reason is StopReason.ANSWERED
            passed_over = _passed_over(agents, rejected, nature.owned_tools, finished)
            executions = Executions(agents, binding, passed_over, nature, by_spans=spans is not None)
            differences += executions.differences()
            native += executions.native
        if counts is not None:
            compared += 1
            differences += calls_and_harness(witness, agents, counts)
    return RecordCheck(
        records=tuple(name for name, record in present.items() if record is not None),
        agree=not differences if compared or differences else None,
        differences=tuple(differences),
        native_behaviour=tuple(native),
    )


def _has_no_counts(harness: TaskTrace) -> bool:
    return (
        harness.harness_usage is None and harness.harness_model_calls is None and harness.response_ids is None
    )


def _agents(calls: Sequence[ModelCallRecord]) -> list[ModelCallRecord]:
    return [call for call in calls if call.actor == "agent"]


def _passed_over(
    calls: Sequence[ModelCallRecord], rejected: Collection[str], owned: Collection[str], finished: bool
) -> frozenset[str]:
    """Ids of announced calls of which no execution is expected."""
    ids = {call_id for call in calls for call_id, name in call.tool_calls if name in owned}
    answered = [call for call in calls if call.answered]
    if answered and not finished:
        ids.update(call_id for call_id, _ in answered[-1].tool_calls)
    return frozenset(ids.union(rejected))

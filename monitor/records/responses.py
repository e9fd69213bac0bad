"""The endpoint's answers against the model spans, response by response."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from atp.protocol.records import ModelCallRecord
from monitor.records.codes import Code, difference, times
from monitor.records.nature import Nature
from monitor.records.requests import answered_twice, doubled, lost_tries
from monitor.vocabulary import USAGE


def endpoint_and_spans(
    endpoint: Sequence[ModelCallRecord],
    spans: Sequence[ModelCallRecord],
    nature: Nature,
    ended: bool,
) -> Iterator[str]:
    """Name what the two disagree about.

    Args:
        endpoint: Every request, in order.
        spans: Every model call.
        nature: Of the harness.
        ended: Whether the harness came to its own end, so that no request was cut under way.
    """
    served, seen = _by_response(endpoint), _by_response(spans)
    extra = {
        response: count
        for response, calls in served.items()
        if (count := len(calls) - len(seen.get(response, ()))) > 0
    }
    excused = _client_side_failures(spans, endpoint)
    twice = answered_twice(endpoint, spans, nature)
    unrecorded = 0
    if sum(extra.values()) > excused:
        unrecorded += sum(extra.values())
        told = {response for ids in twice.values() for response in ids}
        for response in extra:
            if response not in told:
                yield difference(Code.RESPONSE_NOT_IN_SPANS, _answers(response, served, seen))
    if sum(len(ids) - 1 for ids in twice.values()) > excused:
        yield from doubled(twice, spans)
    for response, calls in seen.items():
        if (count := len(calls) - len(served.get(response, ()))) > 0:
            unrecorded -= count
            yield difference(Code.RESPONSE_NOT_AT_ENDPOINT, _answers(response, served, seen))
    if ended:
        yield from lost_tries(endpoint, spans, unrecorded)
    for response in served:
        for there, here in zip(served[response], seen.get(response, ()), strict=False):
            yield from _one_call(response, there, here)


def _client_side_failures(spans: Sequence[ModelCallRecord], endpoint: Sequence[ModelCallRecord]) -> float:
    """How many tries the client gave up though the endpoint may have answered them."""
    failed: float = 0
    for call in spans:
        if call.answered:
            failed += call.retries or 0
        elif call.retries is None:
            return float("inf")
        else:
            failed += 1 + call.retries
    return failed - sum(not call.answered for call in endpoint)


def _one_call(response: str, there: ModelCallRecord, here: ModelCallRecord) -> Iterator[str]:
    pairs = [
        ("model", there.model, here.model),
        ("finish_reason", there.finish_reason, here.finish_reason),
        *((name, getattr(there.usage, name), getattr(here.usage, name)) for name in USAGE),
    ]
    for name, said, recorded in pairs:
        # A client that writes 0 where the provider said nothing adds nothing to what was said.
        if said != recorded and not (said is None and recorded == 0):
            yield difference(
                Code.RESPONSE_DIFFERS,
                f"response {response}: {name} is {said!r} for the endpoint, {recorded!r} in the model span",
            )
    if there.tool_calls != here.tool_calls:
        yield difference(
            Code.RESPONSE_DIFFERS,
            f"response {response}: tool calls are {_calls(there.tool_calls)} for the endpoint, "
            f"{_calls(here.tool_calls)} in the model span",
        )


def _by_response(calls: Sequence[ModelCallRecord]) -> Mapping[str, list[ModelCallRecord]]:
    grouped: defaultdict[str, list[ModelCallRecord]] = defaultdict(list)
    for call in calls:
        if call.response_id is not None:
            grouped[call.response_id].append(call)
    return grouped


def _calls(calls: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"{call_id} ({name})" for call_id, name in calls) or "none"


def _answers(
    response: str,
    served: Mapping[str, Sequence[ModelCallRecord]],
    seen: Mapping[str, Sequence[ModelCallRecord]],
) -> str:
    there, here = len(served.get(response, ())), len(seen.get(response, ()))
    return f"response {response}: {times(there)} answered by the endpoint, {times(here)} in model spans"

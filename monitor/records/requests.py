"""What the endpoint's log says of the requests themselves: sent twice, or without their past."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence

from atp.protocol.records import ModelCallRecord
from monitor.records.codes import Code, difference
from monitor.records.nature import Nature


def answered_twice(
    endpoint: Sequence[ModelCallRecord], spans: Sequence[ModelCallRecord], nature: Nature
) -> Mapping[str, Sequence[str]]:
    """Requests that were sent again, word for word, although they had been answered.

    Agents of a user's own may ask the same twice and mean it; then both answers are in spans.

    Returns:
        The digest of each such request -> the responses it got.
    """
    responses: defaultdict[str, list[str]] = defaultdict(list)
    for call in endpoint:
        if call.request is not None and call.response_id is not None:
            responses[call.request].append(call.response_id)
    seen = {call.response_id for call in spans}
    return {
        request: ids
        for request, ids in responses.items()
        if len(ids) > 1 and (nature.history != "free" or not seen.issuperset(ids))
    }


def doubled(twice: Mapping[str, Sequence[str]], spans: Sequence[ModelCallRecord]) -> Iterator[str]:
    """Name the requests that were sent twice for no failure."""
    seen = {call.response_id for call in spans}
    for ids in twice.values():
        used = [response for response in ids if response in seen]
        yield difference(
            Code.REQUEST_DOUBLED,
            f"one request was answered {len(ids)} times, as responses {', '.join(ids)}; "
            f"model spans tell of {', '.join(used) or 'none'}, and of no try that failed",
        )


def past(calls: Sequence[ModelCallRecord], rejected: Collection[str], nature: Nature) -> Iterator[str]:
    """Name the requests that do not carry back the replies before them.

    A request that was sent again stands for one: either of its replies will do. Each reply that is
    missing is named once, where it is missed first.

    Args:
        calls: The agent's, by the endpoint's log, in order.
        rejected: Ids of tool calls that the harness refused.
        nature: Says which replies a request has to hold.
    """
    if nature.history == "free":
        return
    earlier: dict[str, list[str]] = {}
    for call in calls:
        if call.response_id is None or call.request is None or call.held is None:
            continue
        missed = [
            request
            for request, responses in earlier.items()
            if request != call.request and not set(responses).intersection(call.held)
        ]
        yield from _missing(call, [earlier.pop(request) for request in missed])
        if nature.history == "whole" or _accepted(call, rejected, nature):
            earlier.setdefault(call.request, []).append(call.response_id)


def _accepted(call: ModelCallRecord, rejected: Collection[str], nature: Nature) -> bool:
    # An answer beside other calls is refused with them.
    alone = len(call.tool_calls) == 1 or not any(name in nature.owned_tools for _, name in call.tool_calls)
    return alone and not any(call_id in rejected for call_id, _ in call.tool_calls)


def _missing(call: ModelCallRecord, missing: Sequence[Sequence[str]]) -> Iterator[str]:
    pasted = [ids[-1] for ids in missing if set(ids).intersection(call.pasted)]
    lost = [ids[-1] for ids in missing if not set(ids).intersection(call.pasted)]
    held = ", ".join(call.held or ()) or "none"
    if pasted:
        yield difference(
            Code.TRANSCRIPT_PASTED,
            f"response {call.response_id}: its request tells of the earlier replies {', '.join(pasted)} in "
            f"words of others; as replies of the model it holds {held}",
        )
    if lost:
        yield difference(
            Code.HISTORY_LOST,
            f"response {call.response_id}: its request does not hold the earlier replies "
            f"{', '.join(lost)}; it holds {held}",
        )


def lost_tries(
    endpoint: Sequence[ModelCallRecord], spans: Sequence[ModelCallRecord], unrecorded: int
) -> Iterator[str]:
    """Name tries that only one side knows of, where the harness's client counts them.

    A try that never reached the endpoint is known to the client alone, and no difference; an HTTP
    status is, since somebody must have given it.

    Args:
        endpoint: Every request.
        spans: Every model call.
        unrecorded: Answers of the endpoint that are named as missing in spans, less those named the
            other way round.
    """
    counted = [call.retries for call in spans if call.retries is not None]
    if len(counted) == len(spans):
        tries = sum(counted) + len(spans)
        if len(endpoint) - unrecorded > tries:
            statuses = [str(call.http_status or "cut") for call in endpoint if not call.answered]
            yield difference(
                Code.TRIES_DIFFER,
                f"{len(endpoint)} requests at the endpoint, {tries} tries in model spans; "
                f"failed at the endpoint: {', '.join(statuses) or 'none'}",
            )
    there = Counter(call.http_status for call in endpoint if not call.answered)
    here = Counter(status for call in spans for status in call.failed_statuses)
    for status, count in here.items():
        if count > there[status]:
            yield difference(
                Code.TRIES_DIFFER,
                f"HTTP status {status}: {there[status]} at the endpoint, {count} in model spans",
            )

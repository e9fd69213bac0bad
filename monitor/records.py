"""The comparison of records that are independent of each other.

Four witnesses can speak of a run: the endpoint's own log, the model spans, the calls at the binding,
and the harness's own counts. Model calls are matched by response id, tool calls by call id. What
explains itself is no difference: tries that failed on the client's side and were answered all the
same, tools that belong to the harness, calls that the harness itself refuses, calls of the last
reply when the run ended before they could be made. Everything else is named, with ids and both
values. A record that does not exist is unavailable, and never agreement.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence

from atp.protocol.records import ModelCallRecord
from atp.protocol.spans import AttributeValue, Span, SpanEnd, SpanKind
from atp.protocol.status import StopReason
from atp.protocol.trace import CallIdSource, RecordCheck, TaskTrace, ToolCall, Usage
from monitor import vocabulary as v

_USAGE = {
    "input_tokens": v.USAGE_INPUT,
    "output_tokens": v.USAGE_OUTPUT,
    "cache_read_tokens": v.USAGE_CACHE_READ,
    "cache_write_tokens": v.USAGE_CACHE_WRITE,
    "reasoning_tokens": v.USAGE_REASONING,
}


def model_calls(spans: Sequence[SpanEnd | Span]) -> list[ModelCallRecord]:
    """The model calls that model spans tell of, in the spans' order; failed ones among them."""
    return [
        ModelCallRecord(
            response_id=_text(attributes.get(v.RESPONSE_ID)),
            model=_text(attributes.get(v.MODEL_ANSWERED)),
            usage=Usage(**{field: _integer(attributes.get(name)) for field, name in _USAGE.items()}),
            finish_reason=_text(attributes.get(v.FINISH_REASON)),
            tool_calls=tuple(
                zip(
                    _texts(attributes.get(v.ANNOUNCED_CALL_IDS)),
                    _texts(attributes.get(v.ANNOUNCED_CALL_NAMES)),
                    strict=True,
                )
            ),
            actor=_text(attributes.get(v.ACTOR)) or "agent",
            retries=_integer(attributes.get(v.RETRIES)),
        )
        for attributes in _model_spans(spans)
    ]


def rejected_calls(spans: Sequence[SpanEnd | Span]) -> frozenset[str]:
    """Ids of announced tool calls that the harness itself refused."""
    return frozenset(
        call_id
        for attributes in _model_spans(spans)
        for call_id in _texts(attributes.get(v.REJECTED_CALL_IDS))
    )


def compare(
    endpoint: Sequence[ModelCallRecord] | None,
    spans: Sequence[ModelCallRecord] | None,
    binding: Sequence[ToolCall] | None,
    harness: TaskTrace | None,
    *,
    rejected: Collection[str] = (),
    owned_tools: Collection[str] = (),
    calls_by_code: bool = False,
) -> RecordCheck:
    """Compare what exists.

    Args:
        endpoint: The endpoint's log of the attempt, in order; None when there is none.
        spans: From `model_calls`; None without a monitor.
        binding: The calls that went through the binding; None when there is no binding.
        harness: What the harness says of itself; a record only if it has counts of its own.
        rejected: From `rejected_calls`.
        owned_tools: Tools that belong to the harness (`HarnessCard.owned_tools`).
        calls_by_code: Whether the harness's own code may call tools that no model has asked for; such
            calls have no call id.
    """
    if harness is not None and (
        harness.harness_usage is None and harness.harness_model_calls is None and harness.response_ids is None
    ):
        counts = None
    else:
        counts = harness
    present = {"endpoint": endpoint, "spans": spans, "binding": binding, "harness": counts}
    records = tuple(name for name, record in present.items() if record is not None)
    differences: list[str] = []
    compared = 0
    if endpoint is not None and spans is not None:
        compared += 1
        differences += _endpoint_and_spans(endpoint, spans)
    witness, calls = ("spans", spans) if spans is not None else ("endpoint", endpoint)
    if calls is not None:
        agents = [call for call in calls if call.actor == "agent"]
        if binding is not None:
            compared += 1
            finished = harness is not None and harness.stop_reason is StopReason.ANSWERED
            passed_over = _passed_over(agents, rejected, owned_tools, finished)
            differences += _announced_and_executed(agents, binding, passed_over, owned_tools, calls_by_code)
        if counts is not None:
            compared += 1
            differences += _calls_and_harness(witness, agents, counts)
    return RecordCheck(
        records=records, agree=not differences if compared else None, differences=tuple(differences)
    )


def _endpoint_and_spans(
    endpoint: Sequence[ModelCallRecord], spans: Sequence[ModelCallRecord]
) -> Iterator[str]:
    served, seen = _by_response(endpoint), _by_response(spans)
    extra = {
        response: len(calls) - len(seen.get(response, ()))
        for response, calls in served.items()
        if len(calls) > len(seen.get(response, ()))
    }
    if sum(extra.values()) > _client_side_failures(spans, endpoint):
        for response in extra:
            yield _answers(response, served, seen)
    for response, calls in seen.items():
        if len(calls) > len(served.get(response, ())):
            yield _answers(response, served, seen)
    for response in served:
        if response not in seen:
            continue
        for there, here in zip(served[response], seen[response], strict=False):
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
        *((name, getattr(there.usage, name), getattr(here.usage, name)) for name in _USAGE),
    ]
    for name, said, recorded in pairs:
        # A client that writes 0 where the provider said nothing adds nothing to what was said.
        if said != recorded and not (said is None and recorded == 0):
            yield f"response {response}: {name} is {said!r} for the endpoint, {recorded!r} in the model span"
    if there.tool_calls != here.tool_calls:
        yield (
            f"response {response}: tool calls are {_calls(there.tool_calls)} for the endpoint, "
            f"{_calls(here.tool_calls)} in the model span"
        )


def _passed_over(
    calls: Sequence[ModelCallRecord], rejected: Collection[str], owned: Collection[str], finished: bool
) -> frozenset[str]:
    """Announced calls of which no execution is expected."""
    ids = {call_id for call in calls for call_id, name in call.tool_calls if name in owned}
    answered = [call for call in calls if call.answered]
    if answered and not finished:
        ids.update(call_id for call_id, _ in answered[-1].tool_calls)
    return frozenset(ids.union(rejected))


def _announced_and_executed(
    calls: Sequence[ModelCallRecord],
    binding: Sequence[ToolCall],
    passed_over: Collection[str],
    owned: Collection[str],
    calls_by_code: bool,
) -> Iterator[str]:
    announced: Counter[tuple[str, str]] = Counter(
        pair for call in calls for pair in call.tool_calls if pair[1] not in owned
    )
    executed: Counter[tuple[str, str]] = Counter()
    nameless: Counter[str] = Counter()
    for call in binding:
        if call.id_source is CallIdSource.MODEL:
            executed[call.id, call.name] += 1
        else:
            nameless[call.name] += 1
    for call_id, name in executed - announced:
        times = _times(announced[call_id, name])
        yield f"call {call_id} ({name}): executed {_times(executed[call_id, name])}, announced {times}"
    for (call_id, name), count in (announced - executed).items():
        explained = min(count, nameless[name])
        nameless[name] -= explained
        if count > explained and call_id not in passed_over:
            times = _times(executed[call_id, name] + explained)
            yield f"call {call_id} ({name}): announced {_times(announced[call_id, name])}, executed {times}"
    for name, count in nameless.items():
        if count > 0 and not calls_by_code:
            yield f"tool {name}: executed {_times(count)} without a call id, never announced"


def _calls_and_harness(witness: str, calls: Sequence[ModelCallRecord], harness: TaskTrace) -> Iterator[str]:
    answered = [call for call in calls if call.answered]
    if harness.harness_model_calls is not None and harness.harness_model_calls != len(answered):
        yield f"model calls: {len(answered)} in {witness}, {harness.harness_model_calls} by the harness"
    total = Usage.total(call.usage for call in answered)
    if harness.harness_usage is not None and total is not None:
        for name in _USAGE:
            here, theirs = getattr(total, name), getattr(harness.harness_usage, name)
            if here is not None and theirs is not None and here != theirs:
                yield f"usage {name}: {here} in {witness}, {theirs} by the harness"
    if harness.response_ids is not None:
        here_ids = Counter(call.response_id for call in answered)
        their_ids: Counter[str | None] = Counter(harness.response_ids)
        for response in (here_ids - their_ids).keys():
            yield f"response {response}: in {witness}, not known to the harness"
        for response in (their_ids - here_ids).keys():
            yield f"response {response}: known to the harness, not in {witness}"


def _by_response(calls: Sequence[ModelCallRecord]) -> Mapping[str, list[ModelCallRecord]]:
    grouped: defaultdict[str, list[ModelCallRecord]] = defaultdict(list)
    for call in calls:
        if call.response_id is not None:
            grouped[call.response_id].append(call)
    return grouped


def _model_spans(spans: Sequence[SpanEnd | Span]) -> Iterator[Mapping[str, AttributeValue]]:
    for span in spans:
        kind = span.start.kind if isinstance(span, SpanEnd) else span.kind
        if kind is SpanKind.MODEL:
            yield span.attributes


def _text(value: AttributeValue) -> str | None:
    return value if isinstance(value, str) else None


def _texts(value: AttributeValue) -> list[str]:
    return value if isinstance(value, list) else []


def _integer(value: AttributeValue) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _calls(calls: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"{call_id} ({name})" for call_id, name in calls) or "none"


def _times(count: int) -> str:
    return "never" if count == 0 else "once" if count == 1 else f"{count} times"


def _answers(
    response: str,
    served: Mapping[str, Sequence[ModelCallRecord]],
    seen: Mapping[str, Sequence[ModelCallRecord]],
) -> str:
    there, here = len(served.get(response, ())), len(seen.get(response, ()))
    return f"response {response}: {_times(there)} answered by the endpoint, {_times(here)} in model spans"

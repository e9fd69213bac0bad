"""What a harness does with its model's replies, and what is recorded of it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator

from atp.conformance.check import Problems
from atp.conformance.comparing import canonical
from atp.conformance.evidence import Attempt, Evidence, Mode
from atp.conformance.probe_tasks import FAILURE, UNKNOWN_CALL, Probe
from atp.models.scripted.script import ScriptCall
from atp.models.scripted.steps import Message
from atp.protocol.cards import HarnessCard
from atp.protocol.spans import Span, SpanKind, SpanStatus
from atp.protocol.status import Status
from monitor import vocabulary as v

_RECORDS = ("endpoint", "spans", "binding")
"""What there always is of a scripted run; counts of its own a harness need not have."""


def answers(evidence: Evidence) -> Problems:
    """Every conversation ends with the answer that the model gave, whatever went before: dialogues of five
    turns, parallel calls, a tool that fails, an empty result and one of 200 KB, text of any script.

    Source: `TaskTrace.final_answer` and `replies`.
    """
    for mode, attempt in evidence.conversations:
        probe = attempt.probe
        if _ends(evidence.card, probe):
            continue
        if attempt.trace.status is not Status.COMPLETED:
            yield f"{_where(mode, attempt)}: it ended {attempt.summary}"
        elif attempt.trace.final_answer != probe.answer:
            answer = attempt.trace.final_answer
            yield f"{_where(mode, attempt)}: the answer is {answer!r}, not {probe.answer!r}"
        replies = [step.text for step in probe.steps if not step.tool_calls]
        if probe.dialogue and list(attempt.trace.replies) != replies:
            yield f"{_where(mode, attempt)}: the user heard {list(attempt.trace.replies)}, not {replies}"


def tool_calls(evidence: Evidence) -> Problems:
    """Every call that the model asks for is made once, with its arguments as the model wrote them: none is
    lost of those in parallel, no default is filled in, an empty text, a null and 2.0 stay what they are.

    Source: the design's "arguments are executed as delivered: no repair, no de-duplication, no clipping".
    """
    for mode, attempt in evidence.conversations:
        if attempt.probe.name == "unknown-tool":
            continue
        asked = Counter(_described(call) for step in attempt.probe.steps for call in step.tool_calls)
        made = Counter((call.name, canonical(call.arguments)) for call in attempt.trace.tool_calls)
        for (name, arguments), times in (asked - made).items():
            yield f"{_where(mode, attempt)}: {name}({arguments}) is missing {times} times"
        for (name, arguments), times in (made - asked).items():
            yield f"{_where(mode, attempt)}: {name}({arguments}) was made {times} times more than asked for"


def failing_tool(evidence: Evidence) -> Problems:
    """A tool that fails gives its text to the model, and the run goes on.

    Source: the design's "a tool that fails gives error text the model can read", so that scores of
    harnesses can be compared.
    """
    for mode in evidence.modes:
        yield from _told(mode, mode.scripted["failing-tool"])


def raising_tool(evidence: Evidence) -> Problems:
    """With `tool_errors="raise"` the failure reaches the SDK, which does what the card says: the model is
    told of it, or the run ends by the agent's error.

    Source: `Environment.tool_errors` and the card's `raising_tool`.
    """
    for mode in evidence.modes:
        attempt = mode.scripted["raising-tool"]
        if evidence.card.raising_tool == "told":
            yield from _told(mode, attempt)
        else:
            yield from _ended(mode, attempt)
        if [call.error for call in attempt.trace.tool_calls] != [FAILURE]:
            yield f"{_where(mode, attempt)}: the failed call is not recorded as such"


def unknown_tool(evidence: Evidence) -> Problems:
    """Of a tool that nobody offered the model is told, or the run ends by the agent's error, as the card's
    `unknown_tool` says; it is never taken for another tool.

    Source: the card's `unknown_tool`.
    """
    for mode in evidence.modes:
        attempt = mode.scripted["unknown-tool"]
        if evidence.card.unknown_tool == "ends":
            yield from _ended(mode, attempt)
        elif len(attempt.requests) != 2:
            yield _not_asked_again(mode, attempt)
        elif not any(_tells_of_unknown(evidence.card, each) for each in attempt.requests[1].sent.messages):
            yield f"{_where(mode, attempt)}: the model is not told that there is no such tool"
        for call in attempt.trace.tool_calls:
            if call.name != "no_such_tool" or call.error is None:
                yield f"{_where(mode, attempt)}: {call.name} was executed"


def spans(evidence: Evidence) -> Problems:
    """There is one root agent span; a model span for each reply, in order, with what was asked and said; a
    tool span for each call at the binding; all of them ended, and below one another in one tree.

    Source: the design's "one root agent span per attempt".
    """
    for mode, attempt in evidence.conversations:
        for problem in (*_tree_problems(attempt), *_model_problems(attempt), *_tool_problems(attempt)):
            yield f"{_where(mode, attempt)}: {problem}"


def _tree_problems(attempt: Attempt) -> Iterator[str]:
    known = {span.span_id for span in attempt.spans}
    roots = [span for span in attempt.spans if span.parent_id is None]
    if [root.kind for root in roots] != [SpanKind.AGENT]:
        yield f"{len(roots)} spans have no parent, where one agent span has none"
    for span in attempt.spans:
        if span.status in (SpanStatus.OPEN, SpanStatus.ABORTED) or span.end_ns is None:
            yield f"the {span.kind} span {span.name!r} has not ended"
        if span.parent_id is not None and span.parent_id not in known:
            yield f"the {span.kind} span {span.name!r} hangs from one that is not there"


def _model_problems(attempt: Attempt) -> Iterator[str]:
    answered = [request.response_id for request in attempt.requests if request.response_id is not None]
    seen = [span.attributes.get(v.RESPONSE_ID) for span in _of_kind(attempt, SpanKind.MODEL)]
    if seen != answered:
        yield f"the model spans are of {seen}, the endpoint's replies {answered}"
    for span in _of_kind(attempt, SpanKind.MODEL):
        for body in (v.INPUT_MESSAGES, v.OUTPUT_MESSAGES):
            if body not in span.bodies:
                yield f"the model span {span.name!r} has no {body}"


def _tool_problems(attempt: Attempt) -> Iterator[str]:
    tools = {span.span_id: span.name for span in _of_kind(attempt, SpanKind.TOOL)}
    for call in attempt.trace.tool_calls:
        if tools.get(call.span_id) != call.name:
            yield f"the call {call.id} ({call.name}) has no tool span of that name"


def spans_tell(evidence: Evidence) -> Problems:
    """Model spans tell what was on the wire: the user's words in what was asked, the reply in what was said.

    Source: the design's "model-call spans from the instrument, with messages, reasoning, finish reason,
    usage".
    """
    for mode, attempt in evidence.conversations:
        models = _of_kind(attempt, SpanKind.MODEL)
        for number, (span, step) in enumerate(zip(models, attempt.probe.steps, strict=False), 1):
            asked = json.dumps(attempt.bodies.get(span.bodies.get(v.INPUT_MESSAGES, "")), ensure_ascii=False)
            said = json.dumps(attempt.bodies.get(span.bodies.get(v.OUTPUT_MESSAGES, "")), ensure_ascii=False)
            wanted = [step.text] if step.text else []
            wanted += [text for call in step.tool_calls for text in (call.id, call.name) if text]
            for text in wanted:
                if json.dumps(text, ensure_ascii=False)[1:-1] not in said:
                    yield f"{_where(mode, attempt)}: model span {number} does not say {text!r}"
            if attempt.probe.lines[0] not in asked:
                yield f"{_where(mode, attempt)}: model span {number} does not hold {attempt.probe.lines[0]!r}"


def parents(evidence: Evidence) -> Problems:
    """The tool span of a call is a child of the model span whose reply asked for it, in threads and task
    groups too, and the call has the model's id where the harness knows it.

    Source: the design's "a call's parent is the explicit handle, else the model span that announced its
    call id".
    """
    for mode, attempt in evidence.conversations:
        models = _of_kind(attempt, SpanKind.MODEL)
        tools = {span.span_id: span for span in _of_kind(attempt, SpanKind.TOOL)}
        for call in attempt.trace.tool_calls:
            key = v.ANNOUNCED_CALL_IDS if call.id_source == "model" else v.ANNOUNCED_CALL_NAMES
            wanted = call.id if call.id_source == "model" else call.name
            asking = {span.span_id for span in models if wanted in _texts(span, key)}
            if call.span_id in tools and tools[call.span_id].parent_id not in asking:
                yield (
                    f"{_where(mode, attempt)}: the call {call.id} ({call.name}) hangs from "
                    f"{_parent(attempt, tools[call.span_id])}, not from the model span that asked for it"
                )


def records(evidence: Evidence) -> Problems:
    """The endpoint's log, the model spans, the calls at the binding and, where it has some, the harness's
    own counts tell the same story of every attempt.

    Source: the design's "the records that are really independent are compared".
    """
    for mode, attempt in evidence.conversations:
        check = attempt.trace.checks
        missing = [name for name in _RECORDS if check is None or name not in check.records]
        if missing:
            yield f"{_where(mode, attempt)}: no record of {', '.join(missing)}"
        for difference in check.differences if check is not None else ():
            yield f"{_where(mode, attempt)}: {difference}"


BEHAVIOUR_CHECKS = (
    answers,
    tool_calls,
    failing_tool,
    raising_tool,
    unknown_tool,
    spans,
    spans_tell,
    parents,
    records,
)


def _told(mode: Mode, attempt: Attempt) -> Iterator[str]:
    if len(attempt.requests) != 2:
        yield _not_asked_again(mode, attempt)
    elif not any(FAILURE in message.text for message in attempt.requests[1].sent.messages):
        yield f"{_where(mode, attempt)}: the model is not told {FAILURE!r}"


def _tells_of_unknown(card: HarnessCard, message: Message) -> bool:
    if card.unknown_tool == "unnamed":
        return message.role == "tool" and message.tool_call_id == UNKNOWN_CALL and bool(message.text.strip())
    return "no_such_tool" in message.text


def _not_asked_again(mode: Mode, attempt: Attempt) -> str:
    return f"{_where(mode, attempt)}: {len(attempt.requests)} requests, not 2; it ended {attempt.summary}"


def _ended(mode: Mode, attempt: Attempt) -> Iterator[str]:
    if attempt.trace.status is not Status.AGENT_ERROR:
        yield f"{_where(mode, attempt)}: it ended {attempt.summary}, not by the agent's error"
    if len(attempt.requests) != 1:
        yield f"{_where(mode, attempt)}: {len(attempt.requests)} requests, not 1"


def _ends(card: HarnessCard, probe: Probe) -> bool:
    return (probe.name == "raising-tool" and card.raising_tool == "ends") or (
        probe.name == "unknown-tool" and card.unknown_tool == "ends"
    )


def _where(mode: Mode, attempt: Attempt) -> str:
    return f"{mode.label}, {attempt.probe.name}"


def _of_kind(attempt: Attempt, kind: SpanKind) -> list[Span]:
    return [span for span in attempt.spans if span.kind is kind]


def _texts(span: Span, name: str) -> list[str]:
    value = span.attributes.get(name)
    return value if isinstance(value, list) else []


def _parent(attempt: Attempt, span: Span) -> str:
    named = {each.span_id: f"the {each.kind} span {each.name!r}" for each in attempt.spans}
    return named.get(span.parent_id or "", "nothing that is there")


def _described(call: ScriptCall) -> tuple[str, str]:
    return call.name, canonical(call.arguments or {})

"""Replies made wrong on purpose: what a fault does to a step, and to the bytes of its answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from atp.models.scripted.dialects.anatomy import Anatomy, fault_not_expressible
from atp.models.scripted.dialects.dialect import Rendered, Reply, WireDialect
from atp.models.scripted.dialects.events import event_data, with_data
from atp.models.scripted.faults import Alteration, Fault
from atp.models.scripted.steps import RequestView, Step
from atp.protocol.trace import Usage

OTHER_MODEL = "another-model"
"""What answers where the fault is `other_model`."""
GARBAGE = b"}\nupstream closed\n"
"""What follows the answer where the fault is `trailing_garbage`."""

_STREAMED_ONLY = frozenset({"no_end", "error_event", "duplicate_chunk", "mixed_deltas"})


@dataclass(frozen=True, slots=True)
class Disturbed:
    """An answer as a fault leaves it."""

    answer: Rendered
    reply: Reply | None
    """What a client can read out of it; None where that is nothing whole."""


def disturbed(
    fault: Fault, reply: Reply, before: Reply | None, view: RequestView, dialect: WireDialect
) -> Disturbed:
    """Render a reply as a fault wants it.

    Args:
        fault: What goes wrong; where it cuts or hangs, the answer is still whole here.
        reply: The reply to give, of the `faulty_step`.
        before: The session's last reply.
        view: The request.
        dialect: Its dialect.

    Raises:
        Refusal: The fault has no form in this answer.
    """
    if fault.body is not None:
        kind = fault.content_type or "application/json"
        return Disturbed(Rendered(fault.status or 200, kind, (fault.body.encode(),), _headers(fault)), None)
    if fault.status is not None:
        code = fault.code or f"http_{fault.status}"
        error = dialect.error(fault.status, code, fault.message or f"the script says {fault.status}")
        return Disturbed(replace(error, headers=_headers(fault)), None)
    done = _altered(fault.reply, reply, before, view, dialect)
    if fault.content_type is not None:
        # A client that goes by the content type reads nothing out of it.
        return Disturbed(replace(done.answer, content_type=fault.content_type), None)
    return done


def faulty_step(fault: Fault, step: Step) -> Step:
    """What a step says under a fault that changes that; before an idiom renders it.

    Raises:
        Refusal: The step has no tool call whose id could be changed.
    """
    if fault.reply in ("empty_message", "empty_choices"):
        return replace(step, text=None, reasoning=None, tool_calls=())
    if fault.reply in ("duplicate_ids", "empty_ids"):
        if not step.tool_calls:
            raise fault_not_expressible(f"{fault.reply} needs a tool call, and the step has none")
        shared = "" if fault.reply == "empty_ids" else step.tool_calls[0].id
        return replace(step, tool_calls=tuple(replace(call, id=shared) for call in step.tool_calls))
    return step


def _headers(fault: Fault) -> Mapping[str, str]:
    if fault.retry_after is None:
        return {}
    after = fault.retry_after
    return {"retry-after": after if isinstance(after, str) else f"{after:g}"}


def _altered(
    kind: Alteration | None, reply: Reply, before: Reply | None, view: RequestView, dialect: WireDialect
) -> Disturbed:
    if kind in _STREAMED_ONLY and not view.stream:
        raise fault_not_expressible(f"{kind} is a fault of a stream, and the request asks for none")
    match kind:
        case "no_usage":
            reply = replace(reply, usage=Usage())
        case "other_model":
            reply = replace(reply, model=OTHER_MODEL)
        case "stale":
            if before is None:
                raise fault_not_expressible("there is no earlier reply of this session to give again")
            reply = before
        case "negative_usage":
            # Not validated: the type knows no negative counts, and neither does the log.
            said = replace(reply, usage=Usage.model_construct(input_tokens=-7, output_tokens=-3))
            return Disturbed(dialect.render(said, view), replace(reply, usage=Usage()))
    answer = dialect.render(reply, view)
    change = _CHANGES.get(kind or "")
    if change is None:
        return Disturbed(answer, reply)
    garbage_after_the_end = kind == "trailing_garbage" and view.stream and dialect.anatomy.end_mark
    readable = kind in _READABLE or garbage_after_the_end
    chunks = tuple(change(answer.chunks, dialect.anatomy))
    return Disturbed(replace(answer, chunks=chunks), reply if readable else None)


def _without_choices(chunks: Sequence[bytes], anatomy: Anatomy) -> Iterator[bytes]:
    for chunk in chunks:
        data = event_data(chunk)
        if data is None:
            yield chunk  # the end of a stream
        elif (emptied := anatomy.without_choices(data)) is not None:
            yield with_data(chunk, emptied)


def _half(chunks: Sequence[bytes], anatomy: Anatomy) -> Iterator[bytes]:
    """The first half; the last of it is half an event."""
    *whole, last = chunks[: len(chunks) // 2 + 1]
    yield from whole
    yield last[: len(last) // 2] + (b"\n\n" if last.startswith((b"data:", b"event:")) else b"")


def _with_garbage(chunks: Sequence[bytes], anatomy: Anatomy) -> Iterator[bytes]:
    yield from chunks[:-1]
    yield chunks[-1] + GARBAGE


def _not_utf8(chunks: Sequence[bytes], anatomy: Anatomy) -> Iterator[bytes]:
    # Bytes that begin no character, in the first string of every event.
    for chunk in chunks:
        yield chunk.replace(b'":"', b'":"\xff\xfe', 1)


def _without_end(chunks: Sequence[bytes], anatomy: Anatomy) -> Sequence[bytes]:
    if not anatomy.end_mark:
        raise fault_not_expressible(
            "no_end needs a mark at the end of a stream, and this dialect's streams have none"
        )
    return chunks[:-1]


def _with_error(chunks: Sequence[bytes], anatomy: Anatomy) -> Iterator[bytes]:
    half = len(chunks) // 2
    yield from chunks[:half]
    yield anatomy.error_event(half)


def _with_a_chunk_twice(chunks: Sequence[bytes], anatomy: Anatomy) -> Iterator[bytes]:
    found = [(data := event_data(chunk)) is not None and anatomy.says_something(data) for chunk in chunks]
    twice = found.index(True) if True in found else len(chunks) - 1
    yield from (*chunks[: twice + 1], *chunks[twice:])


def _mixed(chunks: Sequence[bytes], anatomy: Anatomy) -> Iterable[bytes]:
    return anatomy.taking_turns(chunks)


_CHANGES: Mapping[str, Callable[[Sequence[bytes], Anatomy], Iterable[bytes]]] = {
    "empty_choices": _without_choices,
    "truncated": _half,
    "trailing_garbage": _with_garbage,
    "not_utf8": _not_utf8,
    "no_end": _without_end,
    "error_event": _with_error,
    "duplicate_chunk": _with_a_chunk_twice,
    "mixed_deltas": _mixed,
}
_READABLE = frozenset({"empty_choices", "no_end", "duplicate_chunk", "mixed_deltas"})
"""Those of them after which a client still has the reply's id and all that was said."""

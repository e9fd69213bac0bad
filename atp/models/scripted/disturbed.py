"""Replies made wrong on purpose: what a fault does to a step, and to the bytes of its answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

import orjson

from atp.models.scripted.dialects.dialect import Rendered, Reply, WireDialect
from atp.models.scripted.faults import Alteration, Fault
from atp.models.scripted.steps import Refusal, RequestView, Step
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
            raise _not_expressible(f"{fault.reply} needs a tool call, and the step has none")
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
        raise _not_expressible(f"{kind} is a fault of a stream, and the request asks for none")
    match kind:
        case "no_usage":
            reply = replace(reply, usage=Usage())
        case "other_model":
            reply = replace(reply, model=OTHER_MODEL)
        case "stale":
            if before is None:
                raise _not_expressible("there is no earlier reply of this session to give again")
            reply = before
        case "negative_usage":
            # Not validated: the type knows no negative counts, and neither does the log.
            said = replace(reply, usage=Usage.model_construct(input_tokens=-7, output_tokens=-3))
            return Disturbed(dialect.render(said, view), replace(reply, usage=Usage()))
    answer = dialect.render(reply, view)
    change = _CHANGES.get(kind or "")
    if change is None:
        return Disturbed(answer, reply)
    garbage_after_the_end = kind == "trailing_garbage" and view.stream and not _is_gemini(answer.chunks[-1])
    readable = kind in _READABLE or garbage_after_the_end
    return Disturbed(replace(answer, chunks=tuple(change(answer.chunks))), reply if readable else None)


def _not_expressible(message: str) -> Refusal:
    return Refusal(400, "fault_not_expressible", message)


def event_data(chunk: bytes) -> dict[str, Any] | None:
    """The object that a chunk holds: an event of a stream, or a whole answer; None where it holds none."""
    for line in chunk.split(b"\n"):
        text = line.removeprefix(b"data:").strip()
        if text.startswith(b"{"):
            value: dict[str, Any] = orjson.loads(text)
            return value
    return None


def with_data(chunk: bytes, data: Mapping[str, Any]) -> bytes:
    """The same chunk with another object in it."""
    if not chunk.startswith((b"data:", b"event:")):
        return orjson.dumps(data)
    head = chunk[: chunk.index(b"data:")]
    return head + b"data: " + orjson.dumps(data) + b"\n\n"


def _without_choices(chunks: Sequence[bytes]) -> Iterator[bytes]:
    for chunk in chunks:
        data = event_data(chunk)
        if data is not None and "choices" in data:
            yield with_data(chunk, {**data, "choices": []})
        elif data is not None and "candidates" in data:
            yield with_data(chunk, {**data, "candidates": []})
        elif data is not None and "output" in data:
            yield with_data(chunk, {**data, "output": []})
        elif data is not None and "response" in data:
            yield with_data(chunk, {**data, "response": {**data["response"], "output": []}})
        elif data is None or not str(data.get("type", "")).startswith("response."):
            yield chunk  # the end of a stream; what tells of items tells of none


def _half(chunks: Sequence[bytes]) -> Iterator[bytes]:
    """The first half; the last of it is half an event."""
    *whole, last = chunks[: len(chunks) // 2 + 1]
    yield from whole
    yield last[: len(last) // 2] + (b"\n\n" if last.startswith((b"data:", b"event:")) else b"")


def _with_garbage(chunks: Sequence[bytes]) -> Iterator[bytes]:
    yield from chunks[:-1]
    yield chunks[-1] + GARBAGE


def _not_utf8(chunks: Sequence[bytes]) -> Iterator[bytes]:
    # Bytes that begin no character, in the first string of every event.
    for chunk in chunks:
        yield chunk.replace(b'":"', b'":"\xff\xfe', 1)


def _is_gemini(chunk: bytes) -> bool:
    """Whether it is of a dialect whose streams have no mark at their end."""
    return "candidates" in (event_data(chunk) or {})


def _without_end(chunks: Sequence[bytes]) -> Iterator[bytes]:
    if _is_gemini(chunks[-1]):
        raise _not_expressible("no_end needs a mark at the end of a stream, and gemini's have none")
    yield from chunks[:-1]


def _with_error(chunks: Sequence[bytes]) -> Iterator[bytes]:
    yield from chunks[: len(chunks) // 2]
    error = {"message": "the server had an error while it answered", "code": "server_error", "param": None}
    if chunks[0].startswith(b"event:"):
        body = orjson.dumps({"type": "error", "sequence_number": len(chunks) // 2, **error})
        yield b"event: error\ndata: " + body + b"\n\n"
    elif _is_gemini(chunks[0]):
        yield b"data: " + orjson.dumps({"error": {**error, "code": 500, "status": "INTERNAL"}}) + b"\r\n\r\n"
    else:
        yield b"data: " + orjson.dumps({"error": {**error, "type": "server_error"}}) + b"\n\n"


def _with_a_chunk_twice(chunks: Sequence[bytes]) -> Iterator[bytes]:
    twice = next((index for index, chunk in enumerate(chunks) if _says_something(chunk)), len(chunks) - 1)
    yield from (*chunks[: twice + 1], *chunks[twice:])


def _says_something(chunk: bytes) -> bool:
    data = event_data(chunk) or {}
    if str(data.get("type", "")).endswith(".delta"):
        return True
    if any(candidate["content"].get("parts") for candidate in data.get("candidates", ())):
        return True
    deltas = [choice["delta"] for choice in data.get("choices", ()) if "delta" in choice]
    return any(delta.get("content") or delta.get("tool_calls") for delta in deltas)


def _mixed(chunks: Sequence[bytes]) -> Iterator[bytes]:
    """The events of parallel calls take turns, the later call first."""
    by_call: dict[int, list[bytes]] = {}
    for chunk in chunks:
        call = _call_of(chunk)
        if call is not None:
            by_call.setdefault(call, []).append(chunk)
    if len(by_call) < 2:
        raise _not_expressible(
            "mixed_deltas needs two tool calls that come in pieces, and the answer has fewer"
        )
    rounds = zip_longest(*(by_call[call] for call in sorted(by_call, reverse=True)))
    mixed = iter([chunk for turn in rounds for chunk in turn if chunk is not None])
    for number, chunk in enumerate(chunks):
        taken = chunk if _call_of(chunk) is None else next(mixed)
        data = event_data(taken)
        if data is not None and "sequence_number" in data:
            taken = with_data(taken, {**data, "sequence_number": number})
        yield taken


def _call_of(chunk: bytes) -> int | None:
    data = event_data(chunk) or {}
    item = data.get("item") or {}
    if item.get("type") == "function_call" or "function_call_arguments" in str(data.get("type")):
        return int(data["output_index"])
    for choice in data.get("choices", ()):
        for call in choice.get("delta", {}).get("tool_calls") or ():
            return int(call["index"])
    return None


_CHANGES: Mapping[str, Callable[[Sequence[bytes]], Iterator[bytes]]] = {
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

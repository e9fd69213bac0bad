"""Redaction on the way into the database: everything the writer is asked to write passes here.

Runs on the writer's thread, so it holds no event loop up. A body that held a secret has another digest
afterwards; whatever named it by the old one, which is known nowhere else, is made to name it by the new:
spans, tool calls, and the lists of messages that continue it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from atp.protocol.json_text import decode, encode
from atp.protocol.redaction import Redactor
from atp.protocol.spans import SpanEnd, SpanEvent, SpanStart
from atp.protocol.trace import Grade, TaskTrace
from atp.store.bodies import digest_of, referenced
from atp.store.operations import Body, CallRow, Operation

_RENAMED = 262_144
"""Bodies remembered by their old digest. A worker names none that it sent 65,536 bodies ago, unless it
names it all the time, which keeps it here."""


class StoreRedaction:
    """Makes operations fit to be stored. For one thread.

    Args:
        redactor: Decides what a secret is.
    """

    def __init__(self, redactor: Redactor) -> None:
        self.redactor = redactor
        self._renamed: OrderedDict[str, str] = OrderedDict()

    def operation(self, operation: Operation) -> Operation:
        """The same work without secrets; what its transaction writes is redacted by who made it."""
        if not operation.redacted:
            operation.bodies = self.bodies(operation.bodies)
            operation.starts = [self._start(start) for start in operation.starts]
            operation.ends = [self._end(end) for end in operation.ends]
            operation.calls = self.calls(operation.calls)
            operation.redacted = True
        return operation

    def bodies(self, bodies: Iterable[Body]) -> list[Body]:
        """Bodies under the digests of what is left of them."""
        return [self._body(digest, content) for digest, content in bodies]

    def digest(self, digest: str) -> str:
        """The digest under which a body is stored."""
        new = self._renamed.get(digest)
        if new is None:
            return digest
        self._renamed.move_to_end(digest)
        return new

    def calls(self, rows: Iterable[CallRow]) -> list[CallRow]:
        """Rows of calls whose bodies have passed."""
        return [self._call(row) for row in rows]

    def text(self, text: str | None) -> str | None:
        """A text, if there is one."""
        return None if text is None else self.redactor.text(text)

    def document(self, trace: TaskTrace, calls_changed: bool) -> bytes:
        """All of a trace but its calls, which are rows. `redacted` says what is not as it was.

        Args:
            trace: As the engine has it.
            calls_changed: Whether one of its calls is not as it was.
        """
        content = encode(trace, exclude={"tool_calls"})
        suspect = self.redactor.suspects(content)
        if not suspect and not calls_changed:
            return content
        parts: dict[str, Any] = decode(content)
        clean = {name: self.redactor.value(part) for name, part in parts.items()} if suspect else parts
        changed = [name for name, part in parts.items() if clean[name] is not part]
        if calls_changed:
            changed.append("tool_calls")
        return encode({**clean, "redacted": [*trace.redacted, *changed]}) if changed else content

    def grade(self, grade: Grade) -> Grade:
        """A grade; graders quote what they were given."""
        return grade.model_copy(
            update={
                "reason": self.redactor.text(grade.reason),
                "details": self.redactor.value(dict(grade.details)),
            }
        )

    def _body(self, digest: str, content: bytes) -> Body:
        clean = content
        if self._renamed and content.startswith(b'{"prev":'):
            clean = self._list(content)
        if clean is content and self.redactor.suspects(content):
            clean = self._content(content)
        if clean is content or digest_of(content) != digest:  # the second is refused further on
            return digest, content
        new = digest_of(clean)
        self._renamed[digest] = new
        if len(self._renamed) > _RENAMED:
            self._renamed.popitem(last=False)
        return new, clean

    def _list(self, content: bytes) -> bytes:
        value = decode(content)
        if not referenced(value):
            return content
        new = {
            "prev": value["prev"] and self.digest(value["prev"]),
            "items": [self.digest(item) for item in value["items"]],
        }
        return content if new == value else encode(new)

    def _content(self, content: bytes) -> bytes:
        try:
            value = decode(content)
        except (ValueError, RecursionError):  # no JSON, or nested too deeply to be read as such
            text = content.decode("utf-8", "surrogateescape")
            clean_text = self.redactor.text(text)
            return content if clean_text is text else clean_text.encode("utf-8", "surrogateescape")
        clean = self.redactor.value(value)
        return content if clean is value else encode(clean)

    def _call(self, row: CallRow) -> CallRow:
        return (
            *row[:2],
            self.redactor.text(row[2]),
            row[3],
            self.redactor.text(row[4]),
            self.digest(row[5]),
            self.digest(row[6]),
            self.text(row[7]),
            *row[8:],
        )

    def _start(self, start: SpanStart) -> SpanStart:
        suspect = self.redactor.suspects_any(start.attributes, start.name)
        bodies = self._digests(start.bodies)
        if not suspect and bodies is start.bodies:
            return start
        return replace(
            start,
            name=self.redactor.text(start.name),
            attributes=self.redactor.value(start.attributes),
            bodies=bodies,
        )

    def _end(self, end: SpanEnd) -> SpanEnd:
        # Of the start within an end, nothing but its identity and its name is stored.
        suspect = self.redactor.suspects_any(
            end.attributes, end.start.name, end.error_message, end.error_type
        )
        bodies = self._digests(end.bodies)
        if not suspect and bodies is end.bodies and not end.events:
            return end
        return replace(
            end,
            start=replace(end.start, name=self.redactor.text(end.start.name)),
            attributes=self.redactor.value(end.attributes) if suspect else end.attributes,
            bodies=bodies,
            error_type=self.text(end.error_type),
            error_message=self.text(end.error_message),
            events=[self._event(event) for event in end.events],
        )

    def _digests(self, bodies: Mapping[str, str]) -> Mapping[str, str]:
        if not self._renamed or not any(digest in self._renamed for digest in bodies.values()):
            return bodies
        return {name: self.digest(digest) for name, digest in bodies.items()}

    def _event(self, event: SpanEvent) -> SpanEvent:
        if not self.redactor.suspects_any(event.attributes, event.name):
            return event
        name, attributes = self.redactor.text(event.name), self.redactor.value(event.attributes)
        return SpanEvent(name, event.time_ns, attributes)

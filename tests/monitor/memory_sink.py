"""A span sink in memory, and a binding whose tools are functions of the test."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import JsonValue

from atp.protocol.binding import ToolResult
from atp.protocol.environment import UserStop, UserTurn
from atp.protocol.spans import ParentSource, SpanEnd, SpanHandle, SpanKind, SpanStart
from monitor.recorder import SpanRecorder


class MemorySink:
    """Keeps what it is handed, and insists on the order the port promises."""

    def __init__(self) -> None:
        self.bodies: dict[str, bytes] = {}
        self.starts: list[SpanStart] = []
        self.ends: list[SpanEnd] = []
        self.waits = 0
        self.bytes_handed = 0

    def body(self, digest: str, content: bytes) -> None:
        """See `SpanSink`."""
        assert hashlib.sha256(content).hexdigest() == digest
        if digest not in self.bodies:
            self.bytes_handed += len(content)
        self.bodies[digest] = content

    def start(self, record: SpanStart) -> None:
        """See `SpanSink`."""
        assert set(record.bodies.values()) <= self.bodies.keys()
        self.starts.append(record)

    def end(self, record: SpanEnd) -> None:
        """See `SpanSink`."""
        assert set(record.bodies.values()) <= self.bodies.keys()
        self.ends.append(record)

    async def ready(self, *, before_call: bool = False) -> None:
        """See `SpanSink`."""
        self.waits += 1

    async def flush(self) -> None:
        """See `SpanSink`."""

    def json(self, digest: str) -> Any:
        """A body."""
        return json.loads(self.bodies[digest])

    def messages(self, digest: str) -> list[Any]:
        """A list body, resolved."""
        items: list[str] = []
        link: str | None = digest
        while link is not None:
            body = self.json(link)
            items[:0] = body["items"]
            link = body["prev"]
        return [self.json(item) for item in items]

    def of_kind(self, kind: SpanKind) -> list[SpanEnd]:
        """Ended spans of a kind, in the order of their ends."""
        return [end for end in self.ends if end.start.kind is kind]

    def named(self, name: str) -> SpanEnd:
        """The one ended span of that name."""
        [end] = [end for end in self.ends if end.start.name == name]
        return end


Tool = Callable[..., JsonValue]


class FunctionsPort:
    """A binding's other side: tools are functions, calls are kept."""

    def __init__(self, tools: Mapping[str, Tool], recorder: SpanRecorder | None = None) -> None:
        self.tools = tools
        self.recorder = recorder
        self.calls: list[tuple[str, JsonValue, str | None]] = []
        self.parents: list[tuple[str, ParentSource]] = []

    async def call(
        self, name: str, arguments: JsonValue, call_id: str | None, parent: SpanHandle | None
    ) -> ToolResult:
        """See `BindingPort`."""
        self.calls.append((name, arguments, call_id))
        if self.recorder is not None:
            self.parents.append(self.recorder.tool_parent(call_id, parent))
        assert isinstance(arguments, dict)
        try:
            return ToolResult(value=self.tools[name](arguments))
        except ValueError as error:
            return ToolResult(error=str(error))

    async def user_open(self) -> UserTurn:
        """See `BindingPort`."""
        return UserStop(reason="nobody there")

    async def user_reply(self, text: str) -> UserTurn:
        """See `BindingPort`."""
        return UserStop(reason="nobody there")

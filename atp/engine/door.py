"""The engine's side of a binding: validates, executes and records tool calls, and speaks for the user."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import orjson
from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match
from jsonschema.protocols import Validator
from pydantic import JsonValue

from atp.protocol.environment import Environment, ToolSpec, UserTurn
from atp.protocol.errors import (
    AtpError,
    BenchmarkError,
    InfrastructureError,
    ModelCallFailed,
    StoreError,
    ToolFailed,
)
from atp.protocol.spans import ParentSource, SpanEnd, SpanStart
from atp.protocol.trace import CUT_OFF, CallIdSource, ToolCall
from atp.store.rows import moment
from atp.worker.link import Message
from monitor.records.arguments import AlteredArguments, altered
from monitor.tool_spans import EngineToolSpan, engine_tool_span
from monitor.vocabulary import TOOL_CALL_ID, TOOL_CALL_ID_SOURCE


class CallStore(Protocol):
    """Where calls and their spans go; `atp.store.store.Store` is one."""

    def post_record(self, bodies: Mapping[str, bytes], starts: Sequence[SpanStart]) -> None:
        """Store without waiting."""

    async def record_call(
        self, run_id: str, sequence: int, call: ToolCall, end: SpanEnd, bodies: Mapping[str, bytes]
    ) -> None:
        """Store a call with the end of its span; returns when both are durable."""


class Door:
    """One attempt's environment, as its worker reaches it.

    A tool that fails gives text for the model. `failure` holds what ends the attempt: what an
    environment raised that is broken, why a call could not be stored, that the environment's worker died,
    or that the user's model failed. `altered` holds the calls whose arguments are not those that the model
    wrote.

    Args:
        run_id: The attempt.
        trace_id: Its trace.
        environment: Opened by the caller, and closed by it.
        store: Where calls go.
    """

    def __init__(self, run_id: str, trace_id: str, environment: Environment, store: CallStore) -> None:
        self.failure: AtpError | None = None
        self.altered: list[AlteredArguments] = []
        self._run_id = run_id
        self._trace_id = trace_id
        self._environment = environment
        self._store = store
        self._validators = {tool.name: _validator(tool) for tool in environment.tools}
        self._sequence = 0
        self._calls: dict[int, ToolCall] = {}

    @property
    def tool_names(self) -> frozenset[str]:
        """The tools there are."""
        return frozenset(self._validators)

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """All recorded calls, in the order of arrival."""
        return tuple(self._calls[sequence] for sequence in sorted(self._calls))

    @property
    def raised(self) -> frozenset[str]:
        """Ids of the calls whose failure was raised within the SDK, which may take the whole reply for one
        that it cannot accept."""
        if self._environment.tool_errors == "return":
            return frozenset()
        return frozenset(call.id for call in self.calls if call.error is not None)

    async def call(self, request: Message) -> Message:
        """Execute one call of the link's `call` message; gives the reply's `value` and `error`.

        A result is given back only when the call and its span are durable.
        """
        sequence, self._sequence = self._sequence, self._sequence + 1
        call_id, written = request["call_id"], request["announced"]
        if written is not None and altered(written, request["arguments"]):
            self.altered.append(AlteredArguments(call_id, request["name"], written, request["arguments"]))
        else:
            written = None
        span = engine_tool_span(
            run_id=self._run_id,
            trace_id=self._trace_id,
            span_id=request["span_id"],
            parent_id=request["parent_id"],
            parent_source=ParentSource(request["parent_source"]),
            name=request["name"],
            arguments=request["arguments"],
            call_id=call_id if call_id is not None else f"call-{sequence}",
            call_id_source=CallIdSource.MODEL if call_id is not None else CallIdSource.BINDING,
            start_ns=time.time_ns(),
            written=written,
        )
        self._store.post_record(span.bodies, [span.start])
        try:
            value, error = await self._execute(request["name"], request["arguments"])
        except asyncio.CancelledError:
            await self._record(sequence, request, span, None, CUT_OFF)
            raise
        try:
            await self._record(sequence, request, span, value, error)
        except StoreError as refusal:
            self.failure = refusal
            return {"value": None, "error": refusal.message}
        return {"value": value, "error": error}

    async def _record(
        self, sequence: int, request: Message, span: EngineToolSpan, value: JsonValue, error: str | None
    ) -> None:
        end, bodies = span.end(time.time_ns(), result=value, error=error)
        call = ToolCall.model_construct(  # of parts that are what they have to be
            id=str(span.start.attributes[TOOL_CALL_ID]),
            id_source=CallIdSource(str(span.start.attributes[TOOL_CALL_ID_SOURCE])),
            name=request["name"],
            arguments=request["arguments"],
            result=value,
            error=error,
            start=moment(span.start.start_ns),
            end=moment(end.end_ns),
            span_id=span.start.span_id,
        )
        self._calls[sequence] = call
        await self._store.record_call(self._run_id, sequence, call, end, bodies)

    async def user_turn(self, text: str | None) -> UserTurn:
        """The user's first line, or the answer to what the agent said.

        Raises:
            BenchmarkError: The benchmark has no user, or its user raised.
            ModelCallFailed: The model that plays it gave no reply.
            StoreError: A call of that model could not be stored.
        """
        user = self._environment.user
        try:
            if user is None:
                raise BenchmarkError("the harness speaks to a user, but the benchmark has none")
            return await (user.open() if text is None else user.reply(text))
        except (ModelCallFailed, StoreError) as error:
            self.failure = error
            raise
        except Exception as error:
            failure = self.failure = _benchmark_error("the user", error)
            raise failure from error

    async def _execute(self, name: str, arguments: JsonValue) -> tuple[JsonValue, str | None]:
        problem = self._problem(name, arguments)
        if problem is not None:
            return None, problem
        assert isinstance(arguments, dict)  # anything else is a problem
        try:
            return await self._environment.execute(name, arguments), None
        except ToolFailed as error:
            return None, error.message
        except Exception as error:  # noqa: BLE001  kept as the attempt's failure, with its class and text
            failure = self.failure = _benchmark_error(f"tool {name!r}", error)
            return None, failure.message

    def _problem(self, name: str, arguments: JsonValue) -> str | None:
        validator = self._validators.get(name)
        if validator is None:
            offered = ", ".join(self._validators) or "none"
            return f"there is no tool named {name!r}; the tools are: {offered}"
        if not isinstance(arguments, dict):
            return f"invalid arguments for {name}: not a JSON object"
        if not self._environment.checks_arguments:
            return None
        if validator.is_valid(arguments):  # a third of the cost of looking for the best error
            return None
        error = best_match(validator.iter_errors(arguments))
        assert error is not None  # what is not valid has one
        where = f" at {error.json_path}" if error.absolute_path else ""
        return f"invalid arguments for {name}: {error.message}{where}"


def _benchmark_error(what: str, error: Exception) -> AtpError:
    if isinstance(error, BenchmarkError | InfrastructureError):
        return error
    return BenchmarkError(f"{what} raised {type(error).__name__}: {error}")


def _validator(tool: ToolSpec) -> Validator:
    return _compiled(orjson.dumps(tool.parameters))


@functools.lru_cache(maxsize=1024)
def _compiled(schema: bytes) -> Validator:
    parsed: dict[str, Any] = orjson.loads(schema)
    Draft202012Validator.check_schema(parsed)
    return Draft202012Validator(parsed)

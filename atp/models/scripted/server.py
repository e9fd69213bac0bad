"""The HTTP side of the scripted endpoint: sessions, keys, requests, and what goes into the log.

Served by aiohttp's low-level server: a request costs about 0.15 ms of CPU there, half of what
it costs through uvicorn with its pure Python parser.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import itertools
import secrets
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from http import HTTPMethod
from typing import Any

import orjson
from aiohttp import ClientPayloadError, web

from atp.models.scripted.delivery import check_cut, deliver, deliver_with_fault, hung_up
from atp.models.scripted.dialects.dialect import Rendered, Reply, WireDialect
from atp.models.scripted.dialects.routes import DIALECTS, SERVED, dialect_at, split_path, spoken_at
from atp.models.scripted.disturbed import Disturbed, disturbed, faulty_step
from atp.models.scripted.faults import Fault, fault_of_try
from atp.models.scripted.idiom import Idiom
from atp.models.scripted.past_replies import CarriedBack, PastReplies
from atp.models.scripted.policies import Policy
from atp.models.scripted.steps import Refusal, Step, counted_usage
from atp.models.scripted.wire_log import WireLog
from atp.protocol.errors import InvalidInput
from atp.protocol.redaction import Redactor

KEEP_ALIVE = 3600.0
"""Seconds an idle connection stays open: longer than an attempt, so that a client's pool never
meets one that is just closing."""

_ID_PREFIX = secrets.token_hex(8)
# Drawn once: asking the kernel for randomness at every request costs more than parsing it.
_IDS = (f"{_ID_PREFIX}{number:012x}" for number in itertools.count(1))

_CLIENT_GONE = (ConnectionError, ClientPayloadError, web.RequestPayloadError)


@dataclass(slots=True)
class Session:
    """One attempt, or its user or judge, with its own path and key."""

    id: str
    key: bytes
    policy: Policy
    idiom: Idiom
    actor: str
    model: str
    """What `GET models` lists."""
    replies: PastReplies = field(default_factory=PastReplies)
    tries: Counter[int] = field(default_factory=Counter)
    """Position in the script -> how often it was asked for."""
    last: tuple[Reply, Step] | None = None
    """The newest reply that a client could read, and its step before an idiom rendered it."""
    records: list[dict[str, Any]] = field(default_factory=list)
    """What the log got of this session, without the request bodies, for model calls only."""
    unrecorded: set[asyncio.Task[Any]] = field(default_factory=set)
    """Requests whose record is still to be written."""
    written: asyncio.Future[None] | None = None
    """Done when the newest record is on the disk."""
    unfinished: set[asyncio.Task[Any]] = field(default_factory=set)
    """Requests that have a record and whose answer takes its time or never ends."""


class ScriptedServer:
    """Serves all sessions of an endpoint on one port of the loopback interface."""

    def __init__(self, log: WireLog, redactor: Redactor, fatal: Callable[[OSError], None]) -> None:
        """Args:
        log: Where every request is written before its answer ends.
        redactor: Decides what is secret in what is complained of on standard error.
        fatal: Called when the log cannot be written: nothing may be answered then.
        """
        self._log = log
        self._redactor = redactor
        self._fatal = fatal
        self._sessions: dict[str, Session] = {}
        self._runner: web.ServerRunner | None = None

    async def start(self) -> int:
        """Listen on a free port and return it."""
        server = web.Server(self._handle, access_log=None, keepalive_timeout=KEEP_ALIVE)
        # What is under way has been cut by then; 0 would mean to wait for ever.
        self._runner = web.ServerRunner(server, shutdown_timeout=0.05)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0, backlog=1024).start()
        port: int = self._runner.addresses[0][1]
        return port

    def open_session(self, session: Session) -> None:
        """Answer on the session's path from now on.

        Raises:
            InvalidInput: A session of this id is open.
        """
        if session.id in self._sessions:
            raise InvalidInput(f"session {session.id!r} is open already")
        self._sessions[session.id] = session

    async def close_session(self, session_id: str) -> list[dict[str, Any]]:
        """Stop answering on the session's path, cutting what is under way.

        Returns:
            The records of its model calls, in the order of their ends; all of them on the disk.

        Raises:
            InvalidInput: No such session is open.
        """
        session = self._sessions.pop(session_id, None)
        if session is None:
            raise InvalidInput(f"session {session_id!r} is not open")
        under_way = session.unrecorded | session.unfinished
        for task in under_way:
            task.cancel()
        if under_way:
            await asyncio.wait(under_way)
        if session.written is not None:
            await session.written
        return session.records

    async def stop(self) -> None:
        """Close every session and the port."""
        for session_id in list(self._sessions):
            await self.close_session(session_id)
        if self._runner is not None:
            await self._runner.cleanup()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        session_id, rest = split_path(request.path)
        session = self._sessions.get(session_id) if session_id is not None else None
        exchange = _Exchange(request, session, rest, self._redactor)
        task = asyncio.current_task()
        if session is not None and task is not None:
            session.unrecorded.add(task)
        try:
            return await self._deliver(exchange, await exchange.answer())
        except asyncio.CancelledError:
            await self._record_cut(exchange)
            raise
        except _CLIENT_GONE:
            await self._record_cut(exchange)
            return hung_up(request)
        except OSError:
            # The log cannot be written, and nothing may be answered that it does not hold.
            return hung_up(request)
        finally:
            if session is not None and task is not None:
                session.unrecorded.discard(task)

    async def _deliver(self, exchange: _Exchange, answer: Rendered) -> web.StreamResponse:
        async def record() -> None:
            await self._record(exchange)

        if exchange.fault is None:
            return await deliver(exchange.request, answer, record)
        session, task = exchange.session, asyncio.current_task()
        assert session is not None and task is not None  # a fault is one of a session's script
        session.unfinished.add(task)
        try:
            return await deliver_with_fault(
                exchange.request, answer, exchange.fault, exchange.dialect.anatomy, record
            )
        finally:
            session.unfinished.discard(task)

    async def _record(self, exchange: _Exchange) -> None:
        record = exchange.record()
        exchange.recorded = True
        written = self._log.append(record)
        session, task = exchange.session, asyncio.current_task()
        if session is not None and task is not None:
            session.written = written
            session.unrecorded.discard(task)
            if exchange.is_model_call:
                record.pop("body", None)
                session.records.append(record)
        try:
            # Shielded: the log's promise does not depend on the client staying.
            await asyncio.shield(written)
        except OSError as error:
            self._fatal(error)
            raise

    async def _record_cut(self, exchange: _Exchange) -> None:
        if not exchange.recorded:
            exchange.cut()
            await self._record(exchange)


class _Exchange:
    """One request and what became of it."""

    def __init__(
        self, request: web.BaseRequest, session: Session | None, rest: str, redactor: Redactor
    ) -> None:
        self.request = request
        self._redactor = redactor
        self.session = session
        self.request_id = f"req_{next(_IDS)}"
        self.recorded = False
        self.is_model_call = True
        self.fault: Fault | None = None
        self.dialect = DIALECTS[spoken_at(rest)]
        self._rest = rest
        self._start = datetime.now(UTC)
        self._status: int | None = None
        self._code: str | None = None
        self._reply: Reply | None = None
        self._model: str | None = None
        self._body: bytes | None = None
        self._digest: str | None = None
        self._carried_back: CarriedBack | None = None
        self._stream = False

    async def answer(self) -> Rendered:
        """Decide the answer; it is not sent yet."""
        dialect = self.dialect
        try:
            rendered = await self._admitted(dialect)
        except Refusal as refusal:
            self._code, self._reply = refusal.code, None
            rendered = dialect.error(refusal.status, refusal.code, refusal.message)
        except (asyncio.CancelledError, *_CLIENT_GONE):
            raise
        except Exception as error:
            # A defect here must neither stop the endpoint nor pass for a reply of the model.
            print(self._redactor.text(traceback.format_exc()), file=sys.stderr)
            self._code, self._reply = "endpoint_defect", None
            rendered = dialect.error(500, self._code, f"the scripted endpoint failed: {type(error).__name__}")
        self._status = rendered.status
        return replace(rendered, headers={dialect.request_id_header: self.request_id, **rendered.headers})

    async def _admitted(self, dialect: WireDialect) -> Rendered:
        method, session = self.request.method, self.session
        if session is None:
            raise Refusal(404, "unknown_path", f"no session answers on {self.request.path}")
        given = dialect.key(self.request.headers).encode("utf-8", "surrogateescape")
        # The key is checked before the body is read or kept.
        if not hmac.compare_digest(given, session.key):
            raise Refusal(401, "invalid_api_key", "the key is not the one of this session")
        if self._rest == "v1/models" and method == HTTPMethod.GET:
            self.is_model_call = False
            listed = {"id": session.model, "object": "model", "created": 0, "owned_by": "scripted"}
            return Rendered(200, "application/json", (orjson.dumps({"object": "list", "data": [listed]}),))
        if dialect_at(self._rest) is None:
            raise Refusal(404, "unknown_path", f"{self.request.path} is not served; {', '.join(SERVED)} is")
        if method != HTTPMethod.POST:
            raise Refusal(405, "method_not_allowed", f"{self._rest} is served by POST, not {method}")
        for name in dialect.required_headers:
            if name not in self.request.headers:
                raise Refusal(400, "invalid_request", f"{name}: the header is required")
        self._body = await self.request.content.read()
        return self._reply_to(self._body, session, dialect)

    def _reply_to(self, body: bytes, session: Session, dialect: WireDialect) -> Rendered:
        view = dialect.parse(body, self._rest)
        self._model, self._stream = view.model, view.stream
        heard = session.idiom.hear(view)
        self._digest = hashlib.sha256(body).hexdigest()
        self._carried_back = session.replies.within(heard.messages)
        verbatim = session.policy.verbatim
        step = session.policy.step(view if verbatim else heard)
        session.tries[step.position] += 1
        fault = fault_of_try(step.faults, session.tries[step.position])
        step = step if fault is None else faulty_step(fault, step)
        plain = session.idiom.plain(step) if verbatim else step
        step = step if verbatim else session.idiom.say(step, view)
        reply = Reply(
            id=f"{dialect.id_prefix}{next(_IDS)}",
            model=view.model,
            created=int(time.time()),
            step=step,
            usage=step.usage if step.usage is not None else counted_usage(step, view),
        )
        if fault is None:
            done = Disturbed(dialect.render(reply, view), reply)
        else:
            earlier = session.last[0] if session.last is not None else None
            done = disturbed(fault, reply, earlier, view, dialect)
            check_cut(fault, done.answer, dialect.anatomy)
            self._fault_fires(fault, done)
        if done.reply is not None and self._code is None:
            if session.last is None or done.reply is not session.last[0]:
                session.last = (done.reply, plain)
            self._reply = done.reply
            session.replies.add(self._digest, done.reply.id, session.last[1])
        return done.answer

    def _fault_fires(self, fault: Fault, done: Disturbed) -> None:
        self.fault = fault
        if fault.cut is not None or fault.hang is not None:
            self._code = "cut"
        elif done.reply is None:
            self._code = fault.code or fault.kind

    def cut(self) -> None:
        """The request or its answer ended before its time: nobody got a whole reply."""
        self._code, self._reply = "cut", None

    def record(self) -> dict[str, Any]:
        """The line for the log. Holds no header, hence no key."""
        reply = self._reply
        record: dict[str, Any] = {
            "session": self.session.id if self.session else None,
            "actor": self.session.actor if self.session else None,
            "request_id": self.request_id,
            "method": self.request.method,
            "path": self.request.path,
            "status": None if self.fault is not None and self.fault.headless else self._status,
            "error": self._code,
            "fault": self.fault.kind if self.fault else None,
            "response_id": reply.id if reply else None,
            "model": reply.model if reply else self._model,
            "finish_reason": reply.step.finish.value if reply else None,
            "tool_calls": [{"id": call.id, "name": call.name} for call in reply.step.tool_calls]
            if reply
            else [],
            "usage": reply.usage.model_dump() if reply else None,
            "request": self._digest,
            "held": self._carried_back.held if self._carried_back else None,
            "pasted": self._carried_back.pasted if self._carried_back else (),
            "stream": self._stream,
            "start": self._start.isoformat(),
            "end": datetime.now(UTC).isoformat(),
        }
        if self._body is not None:
            record["body"] = _readable(self._body)
        return record


def _readable(body: bytes) -> Any:
    """The body as JSON where it is JSON, bytes unchanged if they fit on a line; else as text."""
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        return body.decode("utf-8", "backslashreplace")
    return value if b"\n" in body or b"\r" in body else orjson.Fragment(body)

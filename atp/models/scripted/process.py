"""The endpoint's process: `python -m atp.models.scripted LOG`, run by `endpoint.ScriptedEndpoint`.

Controlled by JSON lines over its standard input, answered on its standard output:

    {"port": 40123}                                                        first, unasked
    {"n": 1, "do": "open", "session": "...", "key": "...", "policy": {...},
     "idiom": "plain", "actor": "agent"}                         ->  {"n": 1}
    {"n": 2, "do": "close", "session": "..."}                    ->  {"n": 2, "records": [...]}
    what cannot be done                                          ->  {"n": 3, "error": {"code", "message"}}

The end of standard input ends the process, so that it never outlives the engine, however that
ends. Ctrl-C is the engine's to act on and is ignored here.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
from pathlib import Path
from typing import Any

import orjson

from atp.models.scripted.idiom import idiom_named
from atp.models.scripted.policies import policy_from
from atp.models.scripted.server import ScriptedServer, Session
from atp.models.scripted.wire_log import WireLog
from atp.protocol.errors import AtpError, InvalidInput
from atp.protocol.redaction import Redactor

LINE_LIMIT = 1 << 28
"""Bytes of one control line; a script or the records of an attempt fit many times over."""

_SESSION_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


def main(arguments: list[str]) -> int:
    """Serve until standard input ends.

    Args:
        arguments: The path of the log.

    Returns:
        The exit code: 0, or 1 when the log could not be written.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return asyncio.run(_serve(Path(arguments[0])))


async def _serve(log_path: Path) -> int:
    control_in, control_out = await _control_pipes()
    redactor = Redactor.of_environment()
    log = WireLog(log_path, redactor)
    failure: asyncio.Future[OSError] = asyncio.get_running_loop().create_future()

    def fatal(error: OSError) -> None:
        if not failure.done():
            failure.set_result(error)

    server = ScriptedServer(log, redactor, fatal)
    control_out.write(_line({"port": await server.start()}))
    commands = asyncio.ensure_future(_obey(control_in, control_out, server))
    ends: set[asyncio.Future[Any]] = {commands, failure}
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    if failure.done():
        print(f"wire log {log_path} cannot be written: {failure.result()}", file=sys.stderr)
        # Nothing more may be answered: whoever waits has to see the connection break.
        os._exit(1)
    await commands
    await server.stop()
    await log.close()
    return 0


async def _control_pipes() -> tuple[asyncio.StreamReader, asyncio.WriteTransport]:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=LINE_LIMIT)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(0, "rb", 0))
    # Whatever else prints must not end up between control lines.
    own_output = os.dup(1)
    os.dup2(2, 1)
    transport, _ = await loop.connect_write_pipe(asyncio.Protocol, os.fdopen(own_output, "wb", 0))
    return reader, transport


async def _obey(
    control_in: asyncio.StreamReader, control_out: asyncio.WriteTransport, server: ScriptedServer
) -> None:
    async with asyncio.TaskGroup() as group:
        while line := await control_in.readline():
            group.create_task(_obey_one(json.loads(line), control_out, server))


async def _obey_one(
    command: dict[str, Any], control_out: asyncio.WriteTransport, server: ScriptedServer
) -> None:
    number = command["n"]
    try:
        if command["do"] == "open":
            server.open_session(_session(command))
            control_out.write(_line({"n": number}))
        else:
            records = await server.close_session(command["session"])
            control_out.write(_line({"n": number, "records": records}))
    except AtpError as error:
        control_out.write(_line({"n": number, "error": {"code": error.code, "message": error.message}}))


def _session(command: dict[str, Any]) -> Session:
    session_id = command["session"]
    if not _SESSION_ID.fullmatch(session_id):
        # It is a part of a URL.
        raise InvalidInput(f"session id {session_id!r}: letters, digits, dot, hyphen, underscore only")
    return Session(
        id=session_id,
        key=command["key"].encode(),
        policy=policy_from(command["policy"], session_id),
        idiom=idiom_named(command["idiom"]),
        actor=command["actor"],
        model=command["policy"]["kind"],
    )


def _line(value: dict[str, Any]) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_APPEND_NEWLINE)

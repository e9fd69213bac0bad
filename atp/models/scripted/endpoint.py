"""The engine's handle on the scripted endpoint, which is a process of its own."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import secrets
import sys
from pathlib import Path
from typing import Any, Self, cast

import orjson
from pydantic import SecretStr

from atp.models.ref import SCRIPTED
from atp.models.scripted.dialects.routes import BASE_PATHS
from atp.models.scripted.wire_log import model_call_of
from atp.protocol.base import JsonObject
from atp.protocol.errors import InfrastructureError, InvalidInput
from atp.protocol.model import Dialect, ModelEndpoint
from atp.protocol.records import ModelCallRecord

START_TIMEOUT = 60.0
"""Seconds for the process to listen; it takes under one, unless the machine is overloaded."""
STOP_TIMEOUT = 10.0
"""Seconds for it to write its log to the end, before it is killed."""
KEY_PREFIX = "atp-scripted-"
"""How every session's key begins, by which it is found where it turns up (`atp.protocol.secret_shapes`)."""
_HELLO = 0
"""Stands for the number of the line that the process sends unasked."""


class ScriptedSession:
    """An open session of the endpoint; made by `ScriptedEndpoint.open`."""

    def __init__(self, endpoint: ScriptedEndpoint, session_id: str, key: str) -> None:
        self._endpoint = endpoint
        self._key = SecretStr(key)
        self.id = session_id

    def model_endpoint(self, dialect: Dialect, model_name: str) -> ModelEndpoint:
        """Where the session's model is reached.

        Args:
            dialect: One of `atp.models.SCRIPTED_DIALECTS`.
            model_name: What requests shall call the model; echoed in replies.
        """
        return ModelEndpoint(
            dialect=dialect,
            base_url=f"http://127.0.0.1:{self._endpoint.port}/s/{self.id}{BASE_PATHS[dialect]}",
            model=model_name,
            api_key=self._key,
            provider=SCRIPTED,
        )

    async def close(self) -> list[ModelCallRecord]:
        """End the session, cutting requests that are still under way.

        Returns:
            The model calls that the endpoint answered, refused or saw cut, in order.

        Raises:
            InfrastructureError: The endpoint's process is gone.
            InvalidInput: The session is closed already.
        """
        answer = await self._endpoint._ask({"do": "close", "session": self.id})
        return [model_call_of(record) for record in answer["records"]]


class ScriptedEndpoint:
    """A running scripted endpoint. Ends with `stop`, or with the process that started it."""

    def __init__(self, process: asyncio.SubprocessTransport, control: _Control, log_path: Path) -> None:
        """For `start`, which is how one is made."""
        self.port = 0
        self.log_path = log_path
        self._process = process
        self._pipe = cast("asyncio.WriteTransport", process.get_pipe_transport(0))
        self._control = control
        self._numbers = itertools.count(_HELLO + 1)

    @classmethod
    async def start(cls, log_path: Path) -> Self:
        """Start the process and wait until it listens.

        Args:
            log_path: The wire log, JSON lines, appended to; beside it, `<log_path>.stderr` gets
                what the process complains of.

        Raises:
            InfrastructureError: It does not start.
        """
        loop = asyncio.get_running_loop()
        try:
            with _stderr_path(log_path).open("ab") as stderr:
                transport, control = await loop.subprocess_exec(
                    lambda: _Control(log_path),
                    sys.executable,
                    # Nothing that lies in the working directory is imported in place of the package.
                    "-P",
                    "-m",
                    "atp.models.scripted",
                    str(log_path),
                    stderr=stderr,
                    # Ctrl-C in the terminal reaches the engine alone.
                    start_new_session=True,
                )
        except OSError as error:
            raise InfrastructureError(f"the scripted endpoint does not start: {error}") from error
        endpoint = cls(transport, control, log_path)
        try:
            async with asyncio.timeout(START_TIMEOUT):
                endpoint.port = (await control.expect(_HELLO))["port"]
        except TimeoutError as error:
            await endpoint.stop()
            raise InfrastructureError(
                f"the scripted endpoint does not listen after {START_TIMEOUT:g} s; "
                f"see {_stderr_path(log_path)}"
            ) from error
        except BaseException:
            await endpoint.stop()
            raise
        return endpoint

    @property
    def pid(self) -> int:
        """The process's id."""
        pid = self._process.get_pid()
        assert pid is not None
        return pid

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def open(
        self, session_id: str, *, policy: JsonObject, idiom: str = "plain", actor: str = "agent"
    ) -> ScriptedSession:
        """Open a session with a path and a random key of its own.

        Args:
            session_id: Letters, digits, `.`, `-`, `_`; new among the open ones. A run id fits.
            policy: What to say, as plain data: see `policies.policy_for`.
            idiom: How the harness wants things said: its card's `idiom`.
            actor: Whom the model calls count for: `agent`, `user_simulator` or `judge`.

        Raises:
            InvalidInput: The endpoint refuses: id, policy or idiom.
            InfrastructureError: The endpoint's process is gone.
        """
        key = f"{KEY_PREFIX}{secrets.token_urlsafe(24)}"
        await self._ask(
            {
                "do": "open",
                "session": session_id,
                "key": key,
                "policy": policy,
                "idiom": idiom,
                "actor": actor,
            }
        )
        return ScriptedSession(self, session_id, key)

    async def stop(self) -> None:
        """End the process, its log complete. Calls that still wait raise `InfrastructureError`."""
        self._pipe.close()
        try:
            async with asyncio.timeout(STOP_TIMEOUT):
                await self._control.ended.wait()
        except TimeoutError:
            self._process.kill()
            await self._control.ended.wait()
        self._process.close()

    async def _ask(self, command: dict[str, Any]) -> dict[str, Any]:
        number = command["n"] = next(self._numbers)
        answered = self._control.expect(number)
        # Not orjson: it knows no integer above 64 bits, and expected arguments may hold one.
        self._pipe.write(json.dumps(command).encode() + b"\n")
        answer = await answered
        if (error := answer.get("error")) is not None:
            raise InvalidInput(f"scripted endpoint: {error['message']}", code=error["code"])
        return answer


class _Control(asyncio.SubprocessProtocol):
    """The answers of the process, each given to whoever waits for its number."""

    def __init__(self, log_path: Path) -> None:
        self.ended = asyncio.Event()
        """The process has ended and its output was read to the end."""
        self._log_path = log_path
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._rest = bytearray()
        self._transport: asyncio.SubprocessTransport | None = None

    def expect(self, number: int) -> asyncio.Future[dict[str, Any]]:
        """The answer of this number, to come; fails when the process ends before."""
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        if self.ended.is_set():
            future.set_exception(self._gone())
        else:
            self._waiting[number] = future
        return future

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.SubprocessTransport", transport)

    def pipe_data_received(self, fd: int, data: bytes | str) -> None:
        self._rest += cast("bytes", data)
        if not self._rest.endswith(b"\n") and b"\n" not in cast("bytes", data):
            return
        *lines, rest = self._rest.split(b"\n")
        self._rest = rest
        for line in lines:
            answer = orjson.loads(line)
            waiting = self._waiting.pop(answer.get("n", _HELLO), None)
            # The asker may have been cancelled since.
            if waiting is not None and not waiting.done():
                waiting.set_result(answer)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called when the process has ended and its pipes are closed."""
        self.ended.set()
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(self._gone())
        self._waiting.clear()

    def _gone(self) -> InfrastructureError:
        code = self._transport.get_returncode() if self._transport is not None else None
        return InfrastructureError(
            f"the scripted endpoint is gone (exit code {code}); its log is {self._log_path}. "
            f"{_last_words(self._log_path)}".rstrip(),
            code="endpoint_gone",
        )


def _stderr_path(log_path: Path) -> Path:
    return log_path.with_name(f"{log_path.name}.stderr")


def _last_words(log_path: Path) -> str:
    errors = _stderr_path(log_path)
    with errors.open("rb") as file:
        file.seek(max(os.fstat(file.fileno()).st_size - 2000, 0))
        tail = file.read().decode("utf-8", "replace").strip()
    return f"Last words in {errors}: {tail}" if tail else ""

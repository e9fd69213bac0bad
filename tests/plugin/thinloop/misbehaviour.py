"""What a bad harness does: asked for by option, so that the engine's defences can be tested."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from atp.protocol.spans import Recorder, SpanKind

_IGNORES_SIGTERM = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(3600)"


async def misbehave(options: Mapping[str, Any], recorder: Recorder) -> None:
    """Do what the options say, in the order of the card."""
    if "print" in options:
        print(options["print"], flush=True)
    if "write_fd1" in options:
        os.write(1, str(options["write_fd1"]).encode())
    if "flood" in options:
        for number in range(int(options["flood"])):
            await recorder.ready()
            span = recorder.start(SpanKind.CHAIN, "flood")
            span.set_body("flood", f"{number} " * 4000)
            span.end()
    if "orphan" in options:
        child = os.posix_spawn(
            sys.executable, [sys.executable, "-c", _IGNORES_SIGTERM], os.environ, setsid=True
        )
        Path(options["orphan"]).write_text(str(child), encoding="utf-8")
    if "exit" in options:
        os._exit(int(options["exit"]))
    if "sys_exit" in options:
        sys.exit(int(options["sys_exit"]))
    if "error" in options:
        raise RuntimeError(options["error"])
    if "hang" in options:
        await _hang(str(options["hang"]))


async def _hang(how: str) -> None:
    match how:
        case "loop":
            time.sleep(3600)
        case "thread":
            await asyncio.to_thread(time.sleep, 3600)
        case "wait":
            await asyncio.Event().wait()
        case other:
            raise ValueError(f"hang={other!r}: loop, thread or wait")

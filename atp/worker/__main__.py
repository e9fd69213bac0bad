"""A worker process: `python -m atp.worker SOCKET LIFELINE [MODULE ...]`.

The first two are inherited descriptors; the modules, the harness's SDK, are imported before the
worker says hello.

Descriptors 0-2 already point at the null device and the worker's log when this starts, so nothing
an SDK prints can reach the link.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import os
import signal
import socket
import sys
import threading

from atp.worker.hello import hello
from atp.worker.host import WorkerHost
from atp.worker.link import connect


def main() -> None:
    """Run until the engine says stop or is gone."""
    link, lifeline = map(int, sys.argv[1:3])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the engine's to handle
    threading.Thread(target=_die_with_engine, args=(lifeline,), daemon=True).start()
    for module in sys.argv[3:]:
        importlib.import_module(module)
    # What is loaded now stays: garbage collections that walked it again, with each attempt's
    # objects, would cost LangGraph 5 % of its CPU.
    gc.freeze()
    asyncio.run(_serve(socket.socket(fileno=link)))


async def _serve(sock: socket.socket) -> None:
    ended = asyncio.Event()
    host = WorkerHost(hello(), on_lost=ended.set)
    host.attach(await connect(sock, host))
    await ended.wait()


def _die_with_engine(lifeline: int) -> None:
    # The engine holds the other end and never writes: end of file means that it is dead, however
    # busy or stuck this process's event loop may be. The session is this worker's own.
    os.read(lifeline, 1)
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main()

"""Ending the process although somebody else's code does not.

A tool or grader that blocks runs in a thread, and a thread cannot be cancelled. Once its attempt is over
it is left behind: Python itself would wait for it, for an hour where the tool sleeps for one.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import NoReturn

THREAD_GRACE = 1.0
"""Seconds that threads get to end before the process ends without them."""


def end(code: int | str | None) -> NoReturn:
    """End the process.

    Args:
        code: As of `sys.exit`.
    """
    left = _left()
    if not left:
        sys.exit(code)
    print(f"atp: ended while a tool or grader still ran, in {len(left)} threads", file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else 0 if code is None else 1)


def _left() -> list[threading.Thread]:
    """Threads that Python would wait for, and that do not end."""
    deadline = time.monotonic() + THREAD_GRACE
    threads = [t for t in threading.enumerate() if t is not threading.current_thread() and not t.daemon]
    for thread in threads:
        thread.join(max(deadline - time.monotonic(), 0.0))
    return [thread for thread in threads if thread.is_alive()]

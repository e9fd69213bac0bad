"""Whether an expression can be calculated at all: `9**9**9**9` would hold the engine for ever.

The official `calculate` hands four operators, digits and parentheses to `eval`; two asterisks make a
power, and nothing interrupts a power of integers. A process of its own tries it first.
"""

from __future__ import annotations

import asyncio
import sys

LIMIT = 0.1
"""Seconds of CPU for an expression with a power; one of use takes microseconds."""

_ALLOWED = frozenset("0123456789+-*/(). ")
"""What the official tool takes; anything else it refuses by itself, unread."""

_TRIAL_TIMEOUT = 30.0
"""Seconds of wall clock for the whole trial, on a machine that is busy."""

_TRIAL = f"""
import resource, sys, time
resource.setrlimit(resource.RLIMIT_AS, (1 << 29, 1 << 29))
resource.setrlimit(resource.RLIMIT_CPU, (1, 1))
expression = sys.stdin.read()
start = time.process_time()
try:
    eval(expression, {{"__builtins__": None}}, {{}})
except MemoryError:
    sys.exit(1)
except Exception:
    pass
sys.exit(time.process_time() - start > {LIMIT})
"""


async def ends_in_time(expression: str) -> bool:
    """Whether the expression comes to a value, or to an error, within `LIMIT` and half a GiB."""
    if "**" not in expression or not _ALLOWED.issuperset(expression):
        return True
    trial = await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",
        "-S",
        "-W",
        "ignore",
        "-c",
        _TRIAL,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        await asyncio.wait_for(trial.communicate(expression.encode()), _TRIAL_TIMEOUT)
    except TimeoutError:
        return False
    finally:
        if trial.returncode is None:
            trial.kill()
            await trial.wait()
    return trial.returncode == 0

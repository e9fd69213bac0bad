"""The card of the thin loop."""

from __future__ import annotations

from atp.protocol.cards import HarnessCard
from atp.protocol.model import Dialect

CARD = HarnessCard(
    name="thinloop",
    title="Thin loop",
    package="atp-test-plugin",
    version="0.1",
    dialects=(Dialect.OPENAI_CHAT,),
    runner="thinloop.runner:ThinLoopRunner",
    instrument="thinloop.instrument:ThinLoopInstrument",
    requirements=None,
    distribution="atp-test-plugin",
    soft_turn_limit="counts model calls of the whole conversation; stops before the next one, no call more",
    options={
        "retries": "try again this often when the endpoint fails with 5xx; 0 by default",
        "tool_prefix": "put this before the names of tools on the wire",
        "call_ids": "none: hand no call id to the binding",
        "calls": "code: tell of tools in the system prompt, and read calls out of blocks of Python",
        "print": "print this text before the first model call",
        "write_fd1": "write this text to descriptor 1 before the first model call",
        "flood": "record so many spans of some 20 KB each before the first model call",
        "exit": "end the process with this code before the first model call",
        "sys_exit": "raise SystemExit with this code before the first model call",
        "hang": "before the first model call: `loop` blocks the event loop, `thread` a thread, `wait` itself",
        "orphan": "start a child in a session of its own that ignores SIGTERM; its pid goes to this file",
        "answer_characters": "answer with this many characters whatever the model said",
        "error": "raise RuntimeError with this text before the first model call",
    },
)

"""What the probe asks of a harness: tasks, and what the scripted model says in each."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from atp.conformance.probe_tools import BOOK
from atp.models.scripted.script import Script, ScriptCall, ScriptStep, ScriptUsage, TaskSteps
from atp.protocol.task import Expected, ExpectedAction, TaskInput, TextPart

PROMPT = "You keep the book of a small inn. Say what was done, briefly — in the guest's own words."
"""What most probes have for a system prompt; in some SDKs braces would be a template's."""
OTHER_PROMPT = "You answer for a ferry: {times} and <prices> as they are.\n\nTwo paragraphs, 予約."
UNICODE = "naïve e\u0301 — 予約 🧪 \U0001d518\U0001d52b \U0001f469\u200d\U0001f52c שלום \u200fمرحبا\u200e end"
"""Combining marks, astral characters, a joined emoji, right-to-left text with its marks."""
FAILURE = "the cellar is locked (code 7)"
"""What `refuse` says of the cellar; no part of it is in the call."""
UNKNOWN_CALL = "call_unknown"
"""The id of the call of a tool that nobody offered."""
MAX_TURNS = 3
"""The turn limit under which `endless` runs."""
MAX_TOKENS = 1000
"""The token limit under which `spends` runs: its second reply is beyond it."""
FOREVER = 600.0
"""Seconds of a pause that nobody waits for."""

FULL: Mapping[str, Any] = {
    "room": "смотровая",
    "party": {"name": "Ada", "seats": 3},
    "dishes": [{"dish": "soup", "count": 2}, {"dish": "pie"}],
    "note": "",
    "deposit": 2.0,
    "until": None,
}
"""Every field of `book`: an empty text, a number that is whole, a null given as such."""
LEAST: Mapping[str, Any] = {"room": "hall", "party": {"name": "Bo", "seats": 1}}


@dataclass(frozen=True, slots=True)
class Probe:
    """One task, and all that is to happen in it."""

    name: str
    steps: tuple[ScriptStep, ...]
    """What the model says, request by request."""
    lines: tuple[str, ...]
    """What is said to the agent: the instruction, or what a user says line by line."""
    dialogue: bool = False
    prompt: str | None = PROMPT
    tool_errors: Literal["return", "raise"] = "return"
    expected: Expected | None = field(default=None)

    @property
    def task(self) -> TaskInput:
        """As a benchmark's task."""
        instruction = () if self.dialogue else (TextPart(text=self.lines[0]),)
        return TaskInput(task_id=self.name, instruction=instruction, expected=self.expected)

    @property
    def answer(self) -> str | None:
        """The last thing that the model says."""
        return self.steps[-1].text


def _call(name: str, call_id: str, **arguments: Any) -> ScriptCall:
    return ScriptCall(name=name, arguments=arguments, id=call_id)


def _calls(*calls: ScriptCall, text: str | None = None, tokens: int | None = None) -> ScriptStep:
    usage = None if tokens is None else ScriptUsage(input_tokens=tokens - 1, output_tokens=1)
    return ScriptStep(text=text, tool_calls=calls, usage=usage)


def _says(text: str) -> ScriptStep:
    usage = ScriptUsage(input_tokens=40, output_tokens=12, cache_read_tokens=8, reasoning_tokens=5)
    return ScriptStep(text=text, usage=usage)


def _probe(name: str, *steps: ScriptStep, lines: Sequence[str] | None = None, **more: Any) -> Probe:
    # Each line names its probe, so that what strays into another conversation is known.
    said = tuple(f"{line} [{name}]" for line in lines or ("Please see to it.",))
    return Probe(name, steps, said, dialogue=lines is not None, **more)


_BOOKED = "The room is booked."
_FIVE = ("One?", "Two?", "Three?", "Four?", "Five?")

CONVERSATIONS = (
    _probe("lone-prompt", _says("Yes."), prompt=OTHER_PROMPT),
    _probe("no-prompt", _says("Yes."), prompt=None),
    _probe(
        "arguments",
        _calls(_call("book", "call_full", **FULL)),
        _calls(_call("book", "call_least", **LEAST)),
        _calls(_call("locate", "call_near", near={"street": "Mill Lane", "number": 4})),
        _says(_BOOKED),
        expected=Expected(
            actions=(ExpectedAction(name=BOOK.name, arguments=dict(FULL)),), outputs=(_BOOKED,)
        ),
    ),
    _probe(
        "parallel",
        _calls(
            _call("pause", "call_slow", seconds=0.05, word="slow"),
            _call("pause", "call_quick", seconds=0.0, word="quick"),
            _call("echo", "call_same_1", text="the same"),
            _call("echo", "call_same_2", text="the same"),
            text="Four things at once.",
        ),
        _says("All four are done."),
    ),
    _probe("failing-tool", _calls(_call("refuse", "call_refused", what="cellar")), _says("It is locked.")),
    _probe(
        "raising-tool",
        _calls(_call("refuse", "call_raised", what="cellar")),
        _says("It is locked."),
        tool_errors="raise",
    ),
    _probe("unknown-tool", _calls(_call("no_such_tool", UNKNOWN_CALL, text="x")), _says("No such tool.")),
    _probe(
        "dialogue",
        _says("One."),
        _calls(_call("echo", "call_two", text="two"), text="Let me see."),
        _says("Two."),
        _calls(_call("echo", "call_three", text="three"), _call("echo", "call_three_more", text="more")),
        _says("Three."),
        _says("Four."),
        _says("Five."),
        lines=_FIVE,
        expected=Expected(
            actions=(ExpectedAction(name="echo", arguments={"text": "two"}),), outputs=("Two.",)
        ),
    ),
    _probe(
        "unicode",
        _calls(_call("echo", "call_unicode", text=UNICODE)),
        _says(f"It says {UNICODE}"),
        prompt=f"Keep {UNICODE} as it is.",
    ),
    _probe("empty-result", _calls(_call("fetch", "call_empty", page="empty")), _says("It is empty.")),
    _probe("long-result", _calls(_call("fetch", "call_long", page="long")), _says("It is long.")),
)
"""Run in each dialect, and streamed where the harness streams."""

ENDLESS = _probe(
    "endless", *(_calls(_call("echo", f"call_{n}", text=str(n)), tokens=2) for n in range(12)), _says("Over.")
)
SPENDS = _probe(
    "spends",
    _calls(_call("echo", "call_first", text="first"), tokens=600),
    _calls(_call("pause", "call_beyond", seconds=FOREVER, word="never"), tokens=600),
    _says("Over."),
)
WAITS = _probe(
    "waits", _calls(_call("pause", "call_waits", seconds=FOREVER, word="never"), tokens=2), _says("Over.")
)
BOUNDED = (ENDLESS, SPENDS, WAITS)
"""Run under limits; the last is cancelled."""


def write_script(path: Path, probes: Sequence[Probe]) -> None:
    """Write what the scripted model says in these probes, as a `scripted/file:` model takes it."""
    script = Script(tasks=tuple(TaskSteps(match=probe.name, steps=probe.steps) for probe in probes))
    path.write_text(
        json.dumps(script.model_dump(mode="json", exclude_none=True), ensure_ascii=False), encoding="utf-8"
    )

"""Write `docs/harnesses.md`: of each built-in harness its card, and what the conformance checks measured.

Run it when a card or a pin has changed; it needs the environments of all of them.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal, NamedTuple

from atp import registry
from atp.conformance.evidence import Attempt, Evidence
from atp.conformance.harness import harness_report
from atp.conformance.observing import STREAM_OPTION, observe
from atp.conformance.probe_tasks import ENDLESS, MAX_TURNS, SPENDS, WAITS
from atp.protocol.spans import SpanKind

PATH = Path(__file__).resolve().parent.parent / "docs" / "harnesses.md"
HARNESSES = ("crewai", "google-adk", "langgraph", "openai-agents", "smolagents")

INTRODUCTION = (
    "# The harnesses\n\n"
    "Each harness runs as its makers have it. Where that shows in what a model is sent, what a failure leads "
    "to or what a limit means, it stands here: the words are those of the harness's card (`atp show harness "
    "NAME`), the rows marked *measured* are what the [checks](protocol.md#check-an-adapter) saw of it with a "
    "scripted model. The last column says whose doing it is: the harness's own; the adapter's, which brings "
    "benchmark and harness together; or that of ATP's runtime, which ends every run from outside alike and "
    "tries a whole attempt again (`--retries`). `scripts/harnesses_page.py` writes this page, and a test "
    "compares it with what the checks see.\n"
)


def section(evidence: Evidence) -> str:
    """What the page says of one harness."""
    card = evidence.card
    rows = "".join(f"| {row.what} | {_cell(row.text)} | {row.by} |\n" for row in _rows(evidence))
    notes = "".join(f"- {note}\n" for note in card.notes)
    return f"## {card.title}\n\n| `{card.name}` | | by |\n|---|---|---|\n{rows}\n{notes}"


def page(evidence: Mapping[str, Evidence]) -> str:
    """The whole page."""
    return "\n".join([INTRODUCTION, *(section(each) for each in evidence.values())])


class _Row(NamedTuple):
    what: str
    text: str
    by: Literal["harness", "adapter", "runtime"]
    """Whose doing it is."""


def _rows(evidence: Evidence) -> Iterator[_Row]:
    card, mode = evidence.card, evidence.modes[0]
    streams = f"when asked: `-o harness.{STREAM_OPTION}=true`" if STREAM_OPTION in card.options else "no"
    answered = sum(request.response_id is not None for request in evidence.bounded[ENDLESS.name].requests)
    report = harness_report(evidence)
    passed = len(report.results) - len(report.failed)
    yield _Row("version", f"{card.package} {card.version}", "harness")
    yield _Row("dialects", ", ".join(card.dialects), "harness")
    yield _Row("streams", streams, "harness")
    yield _Row("system prompt on the wire", _PROMPT[card.prompt_on_wire], "harness")
    yield _Row("tool schemas on the wire", card.schema_on_wire, "harness")
    yield _Row("earlier replies and results", _HISTORY[card.history_on_wire], "harness")
    yield _Row("tools of its own", ", ".join(f"`{name}`" for name in card.owned_tools) or "none", "harness")
    yield _Row(
        "ids of tool calls", _CALL_IDS[card.call_ids], "harness" if card.call_ids == "told" else "adapter"
    )
    yield _Row("turn limit", card.soft_turn_limit, "harness")
    yield _Row(f"at `max_turns` {MAX_TURNS}, *measured*", f"{answered} model calls were answered", "harness")
    yield _Row(
        "at a token limit within a tool, *measured*", _ending(evidence.bounded[SPENDS.name]), "runtime"
    )
    yield _Row("when cancelled within a tool, *measured*", _ending(evidence.bounded[WAITS.name]), "runtime")
    yield _Row("retries of a model call", card.retries or "not known", "harness")
    yield _Row("a tool that fails, *measured*", _outcome(mode.scripted["failing-tool"]), "harness")
    yield _Row("a tool that raises, *measured*", _outcome(mode.scripted["raising-tool"]), "harness")
    yield _Row("an unknown tool, *measured*", _outcome(mode.scripted["unknown-tool"]), "harness")
    yield _Row("tool spans find their parent by, *measured*", ", ".join(_parent_sources(evidence)), "adapter")
    yield _Row("checks passed, *measured*", f"{passed} of {len(report.results)}", "adapter")


_CALL_IDS = {
    "told": "the SDK tells them to tools",
    "matched": "found by name and arguments among the calls that the model has asked for",
}
_PROMPT = {
    "verbatim": "as the benchmark gives it, and nothing else",
    "within": "whole, within the harness's own",
}
_HISTORY = {
    "messages": "the SDK's own message objects, results under the ids of their calls",
    "text": "told as text, results with white space stripped at their ends",
}


def _ending(attempt: Attempt) -> str:
    """How the run ended, and what came after."""
    ending = f"`{attempt.trace.status}`, `{attempt.trace.stop_reason}`"
    return f"{ending}; {attempt.late_requests} requests after the end"


def _outcome(attempt: Attempt) -> str:
    """What the model reads, or how the run ends."""
    if len(attempt.requests) > 1:
        return f"the model reads: {attempt.requests[1].sent.messages[-1].text}"
    error = attempt.trace.error
    return f"the run ends `{attempt.trace.status}`" + (f": {error.message}" if error else "")


def _parent_sources(evidence: Evidence) -> Iterator[str]:
    sources = {
        str(span.parent_source)
        for _, attempt in evidence.conversations
        for span in attempt.spans
        if span.kind is SpanKind.TOOL
    }
    return (f"`{source}`" for source in sorted(sources))


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").replace("<", "&lt;").split())


async def _observed(name: str) -> Evidence:
    with tempfile.TemporaryDirectory() as folder:
        return await observe(registry.harness(name), Path(folder))


async def _all_observed() -> Mapping[str, Evidence]:
    return {name: await _observed(name) for name in HARNESSES}


if __name__ == "__main__":
    PATH.write_text(page(asyncio.run(_all_observed())), encoding="utf-8")

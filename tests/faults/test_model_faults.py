"""Every fault of the model wire on every harness, each harness in one experiment: what becomes of it is what
the fixture says, and what must never happen does not."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from atp import registry
from atp.engine import environments
from tests.faults.fault_experiment import Tried, run_faults
from tests.faults.fault_table import PAGE, lines
from tests.faults.fixture import COLUMNS, Column, Ending, WireFault, faults
from tests.faults.oracle import violations

FAULTS = faults()


def seen(tries: Sequence[Tried]) -> dict[str, Any]:
    """What the records show of a fault, in the words of an `Ending`."""
    first = tries[0]
    trace, checks = first.trace, first.trace.checks
    assert checks is not None
    return {
        "status": trace.status,
        "stop_reason": trace.stop_reason,
        "fault": trace.error.fault if trace.error else None,
        "score": first.grade.score if first.grade else None,
        "tries": len(tries),
        "requests": {len(tried.requests) for tried in tries},
        "ran": _sorted(call.arguments for call in trace.tool_calls if call.error is None),
        "refused": sum(call.error is not None for call in trace.tool_calls),
        "native": _codes(checks.native_behaviour),
        "differences": _codes(checks.differences),
    }


def said(ending: Ending) -> dict[str, Any]:
    """What the fixture says, in the same words."""
    return {
        **ending.model_dump(exclude={"columns", "source"}),
        "requests": {ending.requests},
        "ran": _sorted(ending.ran),
        "native": list(ending.native),
        "differences": list(ending.differences),
    }


def _codes(sentences: Iterable[str]) -> list[str]:
    return sorted({sentence.split(":")[0] for sentence in sentences})


def _sorted(arguments: Iterable[Any]) -> list[str]:
    # Parallel tools end in any order.
    return sorted(json.dumps(each, sort_keys=True) for each in arguments)


EVERY_DAY = {"thinloop", "langgraph", "openai-agents", "smolagents", "google-adk", "crewai-stream"}
"""One way of each harness."""


@pytest.mark.parametrize(
    "column",
    [
        pytest.param(each, marks=[] if each.name in EVERY_DAY else pytest.mark.sampled(3), id=each.name)
        for each in COLUMNS
    ],
)
async def test_every_fault_ends_as_the_fixture_says(
    column: Column, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await environments.create(registry.harness(column.harness))
    happening = [fault for fault in FAULTS if fault.happens_on(column)]
    tried = dict(await run_faults(column, [f for f in happening if not _waits(f, column)], tmp_path))
    waiting = [fault for fault in happening if _waits(fault, column)]
    if waiting:
        # In this process, where a minute can be made shorter.
        monkeypatch.setattr("smolagents.models.RETRY_WAIT", 0.05)
        (tmp_path / "waiting").mkdir()
        tried |= await run_faults(column, waiting, tmp_path / "waiting", workers=0)
    assert {fault.name: seen(tried[fault.name]) for fault in happening} == {
        fault.name: said(fault.ending(column)) for fault in happening
    }
    assert [text for fault in happening for text in violations(fault, tried[fault.name])] == []


def _waits(fault: WireFault, column: Column) -> bool:
    """Whether the harness waits for minutes between its tries."""
    return column.harness == "smolagents" and fault.rate_limit


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: str(fault.name))
def test_the_fixture_names_every_ending_with_its_source_and_none_twice(fault: WireFault) -> None:
    endings = [fault.ending(column) for column in COLUMNS if fault.happens_on(column)]
    assert [ending for ending in fault.ends if ending not in endings] == []
    assert all(ending.source for ending in endings)


def test_no_fault_of_the_wire_becomes_a_score_that_is_not_the_agents() -> None:
    scored = [
        (fault.name, ending.columns)
        for fault in FAULTS
        for ending in fault.ends
        if ending.score is not None and ending.fault not in {None, "agent"}
    ]
    assert scored == []


def test_the_table_of_the_page_is_the_one_of_the_fixture() -> None:
    page = PAGE.read_text(encoding="utf-8").split("\n")
    start = page.index(lines()[0])
    assert page[start : start + len(lines())] == lines()
    assert not page[start + len(lines())]

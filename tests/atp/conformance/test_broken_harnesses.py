"""Each check of a harness finds what it is there to find: a harness with that one thing wrong fails it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from atp.conformance.check import name_of
from atp.conformance.evidence import Evidence
from atp.conformance.harness import HARNESS_CHECKS, harness_report
from atp.conformance.observing import Placement, observe, observe_bounded, observe_conversations
from atp.protocol.errors import PluginError
from tests.atp.conformance.broken_loop import BROKEN, SAID_TO_STREAM

FOUND_BY = {
    "a doubled prompt": {"system-prompt"},
    "words added to the task": {"users-words"},
    "a dropped schema key": {"tool-schemas"},
    "a narrowed schema": {"schema-meaning"},
    "a pasted transcript": {"conversation"},
    "a clipped result": {"conversation"},
    "words of others": {"isolation"},
    "a temperature of its own": {"sampling"},
    "another answer": {"answers", "oracle"},
    "a lost call": {"tool-calls", "records"},
    "defaults filled in": {"tool-calls"},
    "a failure swallowed": {"failing-tool", "raising-tool"},
    "another tool": {"unknown-tool"},
    "a nameless reply": {"spans"},
    "an untold answer": {"spans-tell"},
    "a call without id": {"parents"},
    "altered usage": {"records"},
    "a call of its own": {"noop"},
    "stops early": {"turn-limit"},
    "goes on when cancelled": {"hard-limit", "cancel"},
}
"""What is wrong -> the checks that have to find it; others may."""


HERE = Placement(workers=0)
LIMITS = frozenset({"turn-limit", "hard-limit", "cancel"})


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    """What the thin loop shows: each test puts one half of what a broken one shows in its place."""
    folder = tmp_path_factory.mktemp("sound")
    evidence = asyncio.run(observe(BROKEN, folder, placement=HERE))
    assert not harness_report(evidence).failed
    return evidence


@pytest.mark.parametrize("breaks", FOUND_BY)
async def test_a_harness_with_one_thing_wrong_fails_the_check_for_it(
    breaks: str, sound: Evidence, tmp_path: Path
) -> None:
    options = {"breaks": breaks}
    if FOUND_BY[breaks] & LIMITS:
        bounded = await observe_bounded(BROKEN, tmp_path, options=options, placement=HERE)
        report = harness_report(replace(sound, bounded=bounded))
    else:
        modes = await observe_conversations(BROKEN, tmp_path, options=options, placement=HERE)
        report = harness_report(replace(sound, modes=modes))
    assert {result.name for result in report.failed} >= FOUND_BY[breaks], str(report)


async def test_a_harness_that_passes_over_the_wish_to_stream_fails(sound: Evidence, tmp_path: Path) -> None:
    modes = await observe_conversations(SAID_TO_STREAM, tmp_path, placement=HERE)
    report = harness_report(replace(sound, modes=modes))
    assert [result.name for result in report.failed] == ["streaming"], str(report)


def test_every_check_of_a_harness_is_seen_to_fail() -> None:
    seen = {name for names in FOUND_BY.values() for name in names} | {"streaming"}
    assert seen == {name_of(check) for check in HARNESS_CHECKS}


def test_a_wire_schema_that_cannot_be_loaded_is_named(sound: Evidence) -> None:
    card = BROKEN.model_copy(update={"wire_schema": "thinloop.card:no_such_function"})
    with pytest.raises(PluginError, match="no_such_function"):
        harness_report(replace(sound, card=card))

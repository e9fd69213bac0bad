"""All checks of a harness."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from atp import registry
from atp.conformance.behaviour_checks import BEHAVIOUR_CHECKS
from atp.conformance.check import Check, Report, apply
from atp.conformance.core_checks import CORE_CHECKS
from atp.conformance.evidence import Evidence
from atp.conformance.observing import ALONE, Placement, observe
from atp.conformance.wire_checks import WIRE_CHECKS
from atp.protocol.cards import HarnessCard

HARNESS_CHECKS: tuple[Check[Evidence], ...] = (*WIRE_CHECKS, *BEHAVIOUR_CHECKS, *CORE_CHECKS)
"""Each a rule that every harness keeps."""


async def check_harness(
    harness: str | HarnessCard,
    *,
    options: Mapping[str, str] | None = None,
    placement: Placement = ALONE,
    folder: Path | None = None,
) -> Report:
    """Run a harness through the probe, in the real engine, and hold what was seen against every rule.

    Args:
        harness: A card, or the name of one that is installed.
        options: `-o harness.KEY=V` for all of the runs.
        placement: Where it runs.
        folder: An empty one that keeps databases and logs; None keeps nothing.

    Raises:
        UnknownName: No harness is called so.
        NotReady: Its environment is missing; says the command that makes it.
    """
    card = registry.harness(harness) if isinstance(harness, str) else harness
    if folder is not None:
        return harness_report(await observe(card, folder, options=options, placement=placement))
    with tempfile.TemporaryDirectory(prefix="atp-conformance-") as kept:
        return harness_report(await observe(card, Path(kept), options=options, placement=placement))


def harness_report(evidence: Evidence) -> Report:
    """Hold what was seen of a harness against every rule."""
    return Report(evidence.card.name, tuple(apply(check, evidence) for check in HARNESS_CHECKS))

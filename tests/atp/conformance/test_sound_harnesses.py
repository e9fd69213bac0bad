"""The harnesses that there are keep every rule, each in its own environment."""

from __future__ import annotations

from pathlib import Path

import pytest
from thinloop.card import CARD

from atp import registry
from atp.conformance.harness import check_harness, harness_report
from atp.conformance.observing import observe
from atp.engine import environments
from atp.engine.environments import OWN_DISTRIBUTION
from atp.protocol.errors import NotReady
from scripts.harnesses_page import HARNESSES, PATH, section

REWRITE = "docs/harnesses.md is out of date: run scripts/harnesses_page.py"


@pytest.mark.parametrize("name", [*HARNESSES, "thinloop"])
async def test_a_harness_keeps_every_rule(name: str, tmp_path: Path) -> None:
    await environments.create(registry.harness(name))
    evidence = await observe(registry.harness(name), tmp_path)
    report = harness_report(evidence)
    assert not report.failed, str(report)
    assert name not in HARNESSES or section(evidence) in PATH.read_text(encoding="utf-8"), REWRITE


def test_the_page_has_a_section_for_each_built_in_harness() -> None:
    built_in = {card.name for card in registry.harnesses().values() if card.distribution == OWN_DISTRIBUTION}
    assert built_in == set(HARNESSES)


async def test_a_harness_without_its_environment_is_not_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ATP_HOME", str(tmp_path / "home"))
    card = CARD.model_copy(update={"requirements": "adapters/harnesses/smolagents.txt"})
    with pytest.raises(NotReady, match="atp env create thinloop"):
        await check_harness(card, folder=tmp_path)

"""The page on evidence explains every rule."""

from __future__ import annotations

import re
from pathlib import Path

from atp.protocol.evidence import Rule

PAGE = Path(__file__).parents[4] / "docs" / "evidence.md"


def test_the_page_explains_every_rule_and_no_other() -> None:
    table = PAGE.read_text(encoding="utf-8").partition("| code | rule |")[2]
    explained = [code for row in table.splitlines() for code in re.findall(r"`(\w+)`", row.split(" | ")[0])]
    assert sorted(explained) == sorted(Rule)

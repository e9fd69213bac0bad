"""The table of `docs/faults.md`, made from the fixture: `python -m tests.faults.fault_table` writes it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from tests.faults.fixture import Ending, WireFault, faults

PAGE = Path(__file__).resolve().parents[2] / "docs" / "faults.md"
HEAD = ("| fault | harness | ends | whose | score | tries | requests | the tool | source |", "|---" * 9 + "|")


def lines() -> list[str]:
    """The whole table."""
    return [*HEAD, *(row for fault in faults() for row in _rows(fault))]


def _rows(fault: WireFault) -> Iterator[str]:
    for place, ending in enumerate(fault.ends):
        cells = (
            fault.what if place == 0 else "",
            _columns(fault, ending),
            f"`{ending.status}`, `{ending.stop_reason}`",
            ending.fault or "",
            "none" if ending.score is None else f"{ending.score:g}",
            str(ending.tries),
            str(ending.requests),
            _tool(ending),
            ending.source,
        )
        yield f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |"


def _columns(fault: WireFault, ending: Ending) -> str:
    if len(fault.ends) == 1:
        return "all that stream" if fault.streamed else "all"
    return ", ".join(ending.columns).replace("*", "\\*")


def _tool(ending: Ending) -> str:
    ran = [f"ran with `{json.dumps(arguments, ensure_ascii=False)}`" for arguments in ending.ran]
    refused = ["refused"] * ending.refused
    notes = [f"`{code}`" for code in (*ending.native, *ending.differences)]
    return ", ".join([*(ran or ["did not run"]), *refused, *notes])


def main() -> None:
    """Write the table into the page."""
    text = PAGE.read_text(encoding="utf-8").split("\n")
    start = text.index(HEAD[0])
    end = next(place for place in range(start, len(text)) if not text[place].startswith("|"))
    PAGE.write_text("\n".join([*text[:start], *lines(), *text[end:]]), encoding="utf-8")


if __name__ == "__main__":
    main()

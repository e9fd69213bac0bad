"""What redaction costs on the way into the store: the same spans with and without it, in turns.

    python perf/redaction.py [--spans 16000] [--rounds 4]

Prints one JSON line. The spans are those of `span_store.py`; their prose is Python's own reference. The
redactor knows ten values. CPU counts all threads of the process.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import secrets
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from atp.protocol.redaction import Redactor  # noqa: E402
from atp.store.store import Store  # noqa: E402
from perf.span_store import KINDS, planned, shares, through_store, trace_of  # noqa: E402


class Blind(Redactor):
    """Suspects nothing."""

    def suspects(self, content: bytes) -> bool:
        """See `Redactor.suspects`."""
        return False

    def suspects_any(self, attributes: Mapping[str, Any], *texts: str | None) -> bool:
        """See `Redactor.suspects_any`."""
        return False

    def text(self, text: str) -> str:
        """See `Redactor.text`."""
        return text


async def measure(spans: int, rounds: int, folder: Path) -> dict[str, object]:
    """All figures."""
    traces = max(spans // len(KINDS), rounds)
    source = random.Random(7)
    redactor = Redactor({f"KEY_{number}": secrets.token_urlsafe(32) for number in range(10)})
    used = {"with": 0.0, "without": 0.0}
    looked = suspected = size = 0
    with (
        Store.open(f"sqlite:///{folder / 'with.db'}", redactor=redactor) as redacting,
        Store.open(f"sqlite:///{folder / 'without.db'}", redactor=Blind()) as blind,
    ):
        await planned(redacting, traces)
        await planned(blind, traces)
        for numbers in shares(traces, rounds):
            recorded = [trace_of(number, source) for number in numbers]
            contents = [content for trace in recorded for one in trace for _, content in one.bodies]
            looked, size = looked + len(contents), size + sum(map(len, contents))
            suspected += sum(map(redactor.suspects, contents))
            used["with"] += (await through_store(redacting, recorded, apart=False))[1]
            used["without"] += (await through_store(blind, recorded, apart=False))[1]
    count = traces * len(KINDS)
    return {
        "spans": count,
        "bytes_per_span": round(size / count),
        "bodies_looked_at_closely": round(suspected / looked, 3),
        "cpu_ms_per_span_with": round(used["with"] / count * 1000, 4),
        "cpu_ms_per_span_without": round(used["without"] / count * 1000, 4),
        "cpu_us_per_span_of_redaction": round((used["with"] - used["without"]) / count * 1e6, 1),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Spans into the store with and without redaction.")
    parser.add_argument("--spans", type=int, default=16_000)
    parser.add_argument("--rounds", type=int, default=4)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures = asyncio.run(measure(arguments.spans, arguments.rounds, Path(folder)))
    sys.stdout.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main()

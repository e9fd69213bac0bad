"""A valid `target-evidence-v1` document, to be broken in one place."""

from __future__ import annotations

import json
from typing import Any

RUN = "run-example-001"
CASE = "case-agent-example-001"


def event(sequence: int, second: int, kind: str, **data: Any) -> dict[str, Any]:
    """An event of the run, at this second of its minute."""
    return {
        "event_id": f"{RUN}:event:{sequence}",
        "sequence": sequence,
        "occurred_at": f"2026-11-30T12:00:{second:02}.000Z",
        "source": "example",
        "type": kind,
        "data": {**data, "attributes": {}},
    }


def document(*events: dict[str, Any]) -> dict[str, Any]:
    """A document of these events; by default of a question, one call, its result and an answer."""
    return {
        "schema_version": "target-evidence-v1",
        "run_id": RUN,
        "case_id": CASE,
        "assurance_level": "L2",
        "observed_channels": ["messages", "tools"],
        "started_at": "2026-11-30T12:00:00Z",
        "finished_at": "2026-11-30T12:00:59.5+00:00",
        "events": list(events)
        or [
            event(0, 0, "message", role="user", text="What is the rent?"),
            event(1, 1, "tool.call", call_id="call-1", name="search", arguments={"q": "rent"}),
            event(2, 2, "tool.result", call_id="call-1", name="search", result=[1, 2.5], is_error=False),
            event(3, 3, "message", role="assistant", text="It is 2.5."),
        ],
    }


def as_bytes(value: Any) -> bytes:
    """A document as a target might send it."""
    return json.dumps(value).encode()

"""L2 evidence: what an agent's own target saw of a run, as a `target-evidence-v1` document."""

from atp.protocol.evidence.checks import checked, problems
from atp.protocol.evidence.document import (
    LONGEST_TEXT,
    MOST_BYTES,
    MOST_EVENTS,
    REQUIRED_CHANNELS,
    SCHEMA_VERSION,
    CaseId,
    Channel,
    TargetEvidence,
    event_id,
)
from atp.protocol.evidence.moments import nanoseconds, timestamp
from atp.protocol.evidence.rules import Problem, Rule

__all__ = [
    "LONGEST_TEXT",
    "MOST_BYTES",
    "MOST_EVENTS",
    "REQUIRED_CHANNELS",
    "SCHEMA_VERSION",
    "CaseId",
    "Channel",
    "Problem",
    "Rule",
    "TargetEvidence",
    "checked",
    "event_id",
    "nanoseconds",
    "problems",
    "timestamp",
]

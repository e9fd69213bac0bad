"""A run's span tree as a `target-evidence-v1` document."""

from monitor.evidence.document import evidence_document
from monitor.evidence.size import Canonical

__all__ = ["Canonical", "evidence_document"]

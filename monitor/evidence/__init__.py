"""A run's span tree as a `target-evidence-v1` document."""

from monitor.evidence.document import Canonical, evidence_document

__all__ = ["Canonical", "evidence_document"]

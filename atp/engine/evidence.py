"""The evidence of a stored run, made when it is first asked for and kept from then on."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import rfc8785

from atp.protocol.errors import InfrastructureError, UsageError
from atp.protocol.evidence import checked
from atp.protocol.redaction import Redactor
from atp.protocol.spans import Span
from atp.store.rows import AttemptRow
from atp.store.store import Store
from monitor.evidence import evidence_document
from monitor.vocabulary import ARGUMENTS, INPUT, OUTPUT_MESSAGES, RESULT

_SLUG = 80  # characters of a task's id that a case id shows
_QUOTED = (INPUT, OUTPUT_MESSAGES, ARGUMENTS, RESULT)


async def run_evidence(store: Store, run_id: str) -> bytes:
    """The `target-evidence-v1` document of a run, in its canonical form (RFC 8785): the same bytes for ever.

    Spans that come after the first time change nothing.

    Args:
        store: Holds the run; open for writing.
        run_id: Of an attempt that has ended.

    Raises:
        UsageError: `evidence_not_final`: the run has not ended. `evidence_unobserved`: nobody watched it, so
            there is nothing to show; that is not the same as a run in which nothing happened.
        StoreError: The store refused it, or has lost a body.
    """
    kept = await asyncio.to_thread(store.evidence, run_id)
    if kept is not None:
        return kept
    return await store.keep_evidence(run_id, await asyncio.to_thread(_made, store, run_id))


def case_id(benchmark: str, revision: str | None, task_id: str) -> str:
    """What a task is called towards a target: `case-`, words of its id, and 12 digits that tell it apart.

    Not to be read back; the store knows which task a run was of.

    Args:
        benchmark: Its name.
        revision: Of its data set.
        task_id: The task.
    """
    words = re.sub(r"[^a-z0-9]+", "-", task_id.lower()).strip("-")[:_SLUG].strip("-")
    digest = hashlib.sha256(rfc8785.dumps([benchmark, revision, task_id])).hexdigest()[:12]
    return f"case-{words}-{digest}" if words else f"case-{digest}"


def _made(store: Store, run_id: str) -> bytes:
    attempt = store.attempt(run_id)
    _require_observed(attempt)
    cell = store.cell(attempt.slot.cell_id)
    case = case_id(cell.benchmark, cell.definition["dataset"]["revision"], attempt.slot.task_id)
    # The store holds no secret that was known then; here are those that are known now.
    spans = [_without_secrets(span, store.redactor) for span in store.spans(run_id)]
    bodies = _told(spans, store.bodies(run_id), store.redactor)
    document = evidence_document(run_id, case, spans, bodies, rfc8785.dumps)
    if document is None:
        raise _unobserved(run_id, "no span of its agent was recorded")
    content = rfc8785.dumps(document)
    found = checked(content, run_id, case)
    if not found.valid:
        raise InfrastructureError(
            f"the evidence of run {run_id} breaks a rule: {found.problems[0]}", code="evidence_invalid"
        )
    return content


def _require_observed(attempt: AttemptRow) -> None:
    if attempt.trace is None:
        raise UsageError(
            f"run {attempt.run_id} has not ended: its evidence is made when it has", code="evidence_not_final"
        )
    if not attempt.trace.monitored:
        raise _unobserved(attempt.run_id, "it ran with --no-monitor")


def _unobserved(run_id: str, why: str) -> UsageError:
    return UsageError(f"run {run_id} has no evidence, since {why}", code="evidence_unobserved")


def _told(spans: Sequence[Span], bodies: Mapping[str, Any], redactor: Redactor) -> Mapping[str, Any]:
    """The bodies, those that a document quotes without secrets. The requests of model calls are not quoted:
    each repeats the conversation so far, and to look through all of them takes the square of its length."""
    quoted = {span.bodies[name] for span in spans for name in _QUOTED if name in span.bodies}
    return {digest: redactor.value(value) if digest in quoted else value for digest, value in bodies.items()}


def _without_secrets(span: Span, redactor: Redactor) -> Span:
    texts: Sequence[str | None] = (span.name, span.error_type, span.error_message)
    if not redactor.suspects_any(span.attributes, *texts):
        return span
    return replace(
        span,
        name=redactor.text(span.name),
        attributes=redactor.value(span.attributes),
        error_type=span.error_type and redactor.text(span.error_type),
        error_message=span.error_message and redactor.text(span.error_message),
    )

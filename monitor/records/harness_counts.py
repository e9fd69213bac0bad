"""The harness's own counts, usage and response ids against another record of its model calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from atp.protocol.records import ModelCallRecord
from atp.protocol.trace import TaskTrace, Usage
from monitor.records.codes import Code, difference
from monitor.vocabulary import USAGE


def calls_and_harness(witness: str, calls: Sequence[ModelCallRecord], harness: TaskTrace) -> Iterator[str]:
    """Name what the two disagree about.

    Args:
        witness: The record that `calls` are from.
        calls: The agent's model calls.
        harness: What it says of itself; what it does not count is not compared.
    """
    answered = [call for call in calls if call.answered]
    if harness.harness_model_calls is not None and harness.harness_model_calls != len(answered):
        yield difference(
            Code.HARNESS_CALLS_DIFFER,
            f"model calls: {len(answered)} in {witness}, {harness.harness_model_calls} by the harness",
        )
    total = Usage.total(call.usage for call in answered)
    if harness.harness_usage is not None and total is not None:
        for name in USAGE:
            here, theirs = getattr(total, name), getattr(harness.harness_usage, name)
            if here is not None and theirs is not None and here != theirs:
                yield difference(
                    Code.HARNESS_USAGE_DIFFERS,
                    f"usage {name}: {here} in {witness}, {theirs} by the harness",
                )
    if harness.response_ids is not None:
        here_ids = Counter(call.response_id for call in answered)
        their_ids: Counter[str | None] = Counter(harness.response_ids)
        for response in (here_ids - their_ids).keys():
            yield difference(
                Code.HARNESS_RESPONSES_DIFFER, f"response {response}: in {witness}, not known to the harness"
            )
        for response in (their_ids - here_ids).keys():
            yield difference(
                Code.HARNESS_RESPONSES_DIFFER, f"response {response}: known to the harness, not in {witness}"
            )

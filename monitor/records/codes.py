"""What differences are called: `code: sentence`, the code for programs, the sentence for people."""

from __future__ import annotations

from enum import StrEnum


class Code(StrEnum):
    """Kinds of differences; `docs/results.md` says what each means and what to look at."""

    RESPONSE_NOT_IN_SPANS = "response_not_in_spans"
    RESPONSE_NOT_AT_ENDPOINT = "response_not_at_endpoint"
    RESPONSE_DIFFERS = "response_differs"
    REQUEST_DOUBLED = "request_doubled"
    TRIES_DIFFER = "tries_differ"
    HISTORY_LOST = "history_lost"
    TRANSCRIPT_PASTED = "transcript_pasted"
    CALL_NOT_EXECUTED = "call_not_executed"
    CALL_NOT_ANNOUNCED = "call_not_announced"
    CALL_IDS_SWAPPED = "call_ids_swapped"
    HARNESS_CALLS_DIFFER = "harness_calls_differ"
    HARNESS_USAGE_DIFFERS = "harness_usage_differs"
    HARNESS_RESPONSES_DIFFER = "harness_responses_differ"
    RECORDER_FAILED = "recorder_failed"

    # Of a harness's nature, which is no difference.
    ARGUMENTS_ALTERED = "arguments_altered_by_harness"
    CALL_FROM_TEXT = "call_from_text"


def difference(code: Code, sentence: str) -> str:
    """A difference as it is stored."""
    return f"{code}: {sentence}"


def times(count: int) -> str:
    """A count in words."""
    return "never" if count == 0 else "once" if count == 1 else f"{count} times"

"""The rules of a `target-evidence-v1` document, each with a code, and what is said of one that is broken."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Rule(StrEnum):
    """What a document has to keep. The codes are stable; `docs/evidence.md` explains each."""

    # Of the bytes
    SIZE = "size"
    UTF8 = "utf8"
    JSON = "json"
    KEY_REPEATED = "key_repeated"
    NESTING = "nesting"
    NUMBER = "number"
    TEXT = "text"

    # Of the structure
    KEY_MISSING = "key_missing"
    KEY_UNKNOWN = "key_unknown"
    TYPE = "type"
    LENGTH = "length"
    PATTERN = "pattern"
    SCHEMA_VERSION = "schema_version"
    ASSURANCE_LEVEL = "assurance_level"
    CHANNEL = "channel"
    EVENT_TYPE = "event_type"
    ROLE = "role"
    TIME = "time"
    FILE_CHANGE = "file_change"

    # Of the whole
    RUN = "run"
    CASE = "case"
    CHANNELS_REQUIRED = "channels_required"
    CHANNEL_REPEATED = "channel_repeated"
    CHANNEL_UNDECLARED = "channel_undeclared"
    SPAN_OF_TIME = "span_of_time"
    TIME_OUTSIDE = "time_outside"
    TIME_ORDER = "time_order"
    SEQUENCE = "sequence"
    EVENT_ID = "event_id"
    CALL_REPEATED = "call_repeated"
    RESULT_WITHOUT_CALL = "result_without_call"
    RESULT_BEFORE_CALL = "result_before_call"
    RESULT_REPEATED = "result_repeated"
    RESULT_NAME = "result_name"


@dataclass(frozen=True, slots=True)
class Problem:
    """One rule that is broken in one place."""

    rule: Rule
    where: str
    """JSON Pointer (RFC 6901) into the document; empty for the whole."""
    message: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.where or '(document)'}: {self.message}"

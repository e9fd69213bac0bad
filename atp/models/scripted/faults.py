"""What may go wrong with a reply on purpose, as a script says it.

A fault belongs to a step and fires on the first tries of that step, so that whoever asks again may
get the reply at last. The kinds are those that OpenAI-compatible servers and the networks before
them have shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, Self, TypeAlias

from pydantic import Field, model_validator

from atp.protocol.base import Frozen

Seconds: TypeAlias = Annotated[float, Field(ge=0, le=3600)]

Cut: TypeAlias = Literal["before_head", "after_head", "half", "in_arguments", "before_end"]
"""Where the connection breaks: before the status line, after the headers, in the middle of the body,
in the arguments of the first tool call, before the last event of a stream or the last byte."""

Hang: TypeAlias = Literal["before_head", "half"]
"""Where the answer stops without an end, until the client goes away."""

Alteration: TypeAlias = Literal[
    "empty_choices",
    "empty_message",
    "no_usage",
    "negative_usage",
    "other_model",
    "duplicate_ids",
    "empty_ids",
    "stale",
    "truncated",
    "trailing_garbage",
    "not_utf8",
    "no_end",
    "error_event",
    "duplicate_chunk",
    "mixed_deltas",
]
"""What is wrong with an answer that comes to its end; `docs/scripted-models.md` describes each."""


class Fault(Frozen):
    """One thing that goes wrong, or only takes its time: delays alone leave the reply whole."""

    times: Annotated[int, Field(ge=1)] | Literal["always"] = 1
    """On how many tries, after those of the faults before it."""
    delay: Seconds = 0.0
    """Seconds before the status line."""
    first_byte_delay: Seconds = 0.0
    """Seconds between the headers and the first byte of the body."""
    chunk_delay: Seconds = 0.0
    """Seconds between two events of a stream, or two halves of a whole answer."""
    status: int | None = Field(default=None, ge=200, le=599)
    """HTTP status: of an error in the provider's form, or of `body`."""
    code: str | None = None
    """The provider's code of the error."""
    message: str | None = None
    """The error's text."""
    retry_after: Seconds | Annotated[str, Field(min_length=1)] | None = None
    """The header of that name: seconds, or a date."""
    body: str | None = None
    """In place of an answer: a page of HTML, malformed JSON."""
    content_type: str | None = Field(default=None, min_length=1)
    """Of `body` (left out, `application/json`), or a wrong one for the reply."""
    cut: Cut | None = None
    hang: Hang | None = None
    reply: Alteration | None = None
    """The reply comes, but not as it should be."""

    @model_validator(mode="after")
    def _is_one_fault(self) -> Self:
        failures = [name for name in ("body", "cut", "hang", "reply") if getattr(self, name) is not None]
        if len(failures) > 1:
            raise ValueError(
                f"{' and '.join(failures)} exclude each other: one fault, one thing that goes wrong"
            )
        if self.status is not None and failures not in ([], ["body"]):
            raise ValueError(f"status and {failures[0]} exclude each other")
        if self.status is not None and self.status < 400 and self.body is None:
            raise ValueError("an error has a status from 400 on; one below belongs to a body")
        error_only = [name for name in ("code", "message") if getattr(self, name) is not None]
        if error_only and (self.status is None or self.body is not None):
            raise ValueError(f"{error_only[0]} belongs to an error: give its status, and no body")
        if self.retry_after is not None and self.status is None:
            raise ValueError("retry_after belongs to an error: give its status")
        if self.content_type is not None and (self.status is not None and self.body is None):
            raise ValueError("content_type belongs to a body or a reply, not to an error")
        if not failures and self.status is None and self.content_type is None and not self.slow:
            raise ValueError(
                "a fault does something: give a delay, status, body, content_type, cut, hang or reply"
            )
        return self

    @property
    def slow(self) -> bool:
        """Whether the answer takes its time."""
        return bool(self.delay or self.first_byte_delay or self.chunk_delay)

    @property
    def headless(self) -> bool:
        """Whether not even a status line goes out."""
        return "before_head" in (self.cut, self.hang)

    @property
    def kind(self) -> str:
        """What the log calls it."""
        for name in ("cut", "hang", "reply"):
            if (value := getattr(self, name)) is not None:
                return value if name == "reply" else f"{name}_{value}"
        if self.body is not None:
            return "body"
        if self.status is not None:
            return f"status_{self.status}"
        return "content_type" if self.content_type is not None else "slow"


def fault_of_try(faults: Sequence[Fault], number: int) -> Fault | None:
    """The fault that fires on a try, or None where the reply comes as it is.

    Args:
        faults: Of a step, in their order.
        number: Of the try, from 1.
    """
    for fault in faults:
        if fault.times == "always" or number <= fault.times:
            return fault
        number -= fault.times
    return None

"""What a dialect of the scripted endpoint is: it reads requests and writes replies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from atp.models.scripted.dialects.anatomy import Anatomy
from atp.models.scripted.steps import RequestView, Step
from atp.protocol.trace import Usage


@dataclass(frozen=True, slots=True)
class Reply:
    """A step on its way to the wire."""

    id: str
    """New for every request, a retry included."""
    model: str
    """The model the request named."""
    created: int
    """Unix seconds."""
    step: Step
    usage: Usage
    """What `step` states, else what was counted."""


@dataclass(frozen=True, slots=True)
class Rendered:
    """The bytes of an answer. What changes answers on the wire works on these."""

    status: int
    content_type: str
    chunks: tuple[bytes, ...]
    """At least one. The last is held back until the answer is in the log."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Besides those that every answer has."""


class WireDialect(Protocol):
    """One provider's wire format."""

    id_prefix: str
    """What ids of replies begin with."""
    request_id_header: str
    """Which header of an answer names the request."""
    required_headers: tuple[str, ...]
    """Headers that a request has to have, besides its key."""
    anatomy: Anatomy
    """For faults."""

    def key(self, headers: Mapping[str, str]) -> str:
        """The key that a request shows; empty where it shows none."""

    def parse(self, body: bytes, path: str) -> RequestView:
        """Read a request.

        Args:
            body: Of the request.
            path: Below the session's own, without a leading slash.

        Raises:
            Refusal: The body is no request of this dialect, or asks for what is not served.
        """

    def render(self, reply: Reply, view: RequestView) -> Rendered:
        """Write a reply, streamed if the request asks for it."""

    def error(self, status: int, code: str, message: str) -> Rendered:
        """Write an error."""

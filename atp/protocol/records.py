"""One model call as some record saw it: the common form in which records are compared."""

from __future__ import annotations

from dataclasses import dataclass

from atp.protocol.trace import Usage


@dataclass(frozen=True, slots=True)
class ModelCallRecord:
    """A model call by the account of one witness: the endpoint's log, or a model span."""

    response_id: str | None
    """The provider's id; None when the call failed or the witness does not see ids."""
    model: str | None
    """The model that answered."""
    usage: Usage
    finish_reason: str | None = None
    tool_calls: tuple[tuple[str, str], ...] = ()
    """(call id, tool name) announced by the reply, in order."""
    http_status: int | None = None
    """Only the endpoint sees it."""
    actor: str = "agent"
    retries: int | None = None
    """Tries of the same call that failed before, where the witness's own client counted them."""
    failed_statuses: tuple[int, ...] = ()
    """HTTP statuses of failed tries; only a model span has them, for the endpoint each try is a record."""
    written_calls: tuple[str, ...] = ()
    """Tools that the harness calls by what the model wrote as text; only a model span has them."""
    request: str | None = None
    """SHA-256 of the request's body: a request that is sent again has the same. Only the endpoint sees it."""
    held: tuple[str, ...] | None = None
    """Response ids of the earlier replies that the request carries back as replies of the model. Only the
    endpoint sees them."""
    pasted: tuple[str, ...] = ()
    """Response ids of the earlier replies that it carries back in words of others instead: of a user, say."""

    @property
    def answered(self) -> bool:
        """Whether the model gave a reply."""
        return self.response_id is not None

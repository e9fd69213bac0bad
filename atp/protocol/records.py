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

    @property
    def answered(self) -> bool:
        """Whether the model gave a reply."""
        return self.response_id is not None

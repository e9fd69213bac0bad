"""What every model call that is watched over the HTTP client does with its responses."""

from __future__ import annotations

from dataclasses import dataclass

from atp.protocol.spans import AttributeValue, Recorder, SpanHandle
from monitor import vocabulary as v
from monitor.instruments.openai_http import CopiedResponse


@dataclass(slots=True, kw_only=True)
class WatchedCall:
    """A model call that is running (implements `monitor.instruments.openai_http.Listener`)."""

    recorder: Recorder
    span: SpanHandle
    copy: CopiedResponse | None = None
    ended: bool = False

    def answered(self, copy: CopiedResponse) -> None:
        """See `Listener`."""
        if self._unannounced():
            return
        self.copy = copy
        if copy.retry_count is not None:
            self.span.set(v.RETRIES, copy.retry_count)

    def refused(self, status: int, retry_count: int | None, retry_after: float | None) -> None:
        """See `Listener`."""
        if self._unannounced():
            return
        self.span.event(v.FAILED_TRY, failed_try(status, retry_count, retry_after))
        if retry_count is not None:
            self.span.set(v.RETRIES, retry_count)

    def _unannounced(self) -> bool:
        if self.ended:
            # Somebody used the HTTP client in this context past the hooks: no span tells of it.
            self.recorder.failed("response", LookupError("no model call was announced for a response"))
        return self.ended


def failed_try(status: int, retry_count: int | None, retry_after: float | None) -> dict[str, AttributeValue]:
    """What the event of a failed try tells."""
    about: dict[str, AttributeValue] = {"http.status_code": status, "retry_count": retry_count}
    return about if retry_after is None else about | {"retry_after": retry_after}


def set_known(span: SpanHandle, name: str, value: AttributeValue) -> None:
    """Set an attribute, unless nothing is known of it."""
    if value is not None:
        span.set(name, value)

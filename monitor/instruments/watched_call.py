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
    requests: int = 0
    """Requests that went out for it."""

    def requested(self, body: bytes) -> None:
        """See `Listener`."""
        self.requests += 1
        if self.requests > 1 and not self.ended:
            self.span.event(v.REPEATED_TRY, {"retry_count": self.requests - 1})

    def answered(self, copy: CopiedResponse) -> None:
        """See `Listener`."""
        if self._unannounced():
            return
        self.copy = copy
        if copy.retry_count is not None:
            self.span.set(v.RETRIES, copy.retry_count)

    def refused(self, status: int, retry_count: int | None) -> None:
        """See `Listener`."""
        if self._unannounced():
            return
        self.span.event(v.FAILED_TRY, {"http.status_code": status, "retry_count": retry_count})
        if retry_count is not None:
            self.span.set(v.RETRIES, retry_count)

    def _unannounced(self) -> bool:
        if self.ended:
            # Somebody used the HTTP client in this context past the hooks: no span tells of it.
            self.recorder.failed("response", LookupError("no model call was announced for a response"))
        return self.ended


def set_known(span: SpanHandle, name: str, value: AttributeValue) -> None:
    """Set an attribute, unless nothing is known of it."""
    if value is not None:
        span.set(name, value)

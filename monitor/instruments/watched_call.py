"""What every model call that is watched over the HTTP client does with its responses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from atp.protocol.spans import AttributeValue, Recorder, SpanHandle
from monitor import vocabulary as v
from monitor.instruments.openai_http import CopiedResponse
from monitor.instruments.openai_replies import ChatReply, read_reply


@dataclass(slots=True, kw_only=True)
class WatchedCall:
    """A model call that is running (implements `monitor.instruments.openai_http.Listener`)."""

    recorder: Recorder
    span: SpanHandle
    copy: CopiedResponse | None = None
    ended: bool = False
    requests: int = 0
    """Requests that went out for it."""
    read: Callable[[str, bytes], ChatReply] = read_reply
    """Reads a copy of its dialect."""

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

    def refused(self, status: int, retry_count: int | None, retry_after: float | None) -> None:
        """See `Listener`."""
        if self._unannounced():
            return
        self.span.event(v.FAILED_TRY, failed_try(status, retry_count, retry_after))
        if retry_count is not None:
            self.span.set(v.RETRIES, retry_count)

    def reply(self, error: BaseException | None) -> ChatReply:
        """See `copied_reply`."""
        return copied_reply(self.copy, self.read, error, self.span, self.recorder)

    def _unannounced(self) -> bool:
        if self.ended:
            # Somebody used the HTTP client in this context past the hooks: no span tells of it.
            self.recorder.failed("response", LookupError("no model call was announced for a response"))
        return self.ended


def copied_reply(
    copy: CopiedResponse | None,
    read: Callable[[str, bytes], ChatReply],
    error: BaseException | None,
    span: SpanHandle,
    recorder: Recorder,
) -> ChatReply:
    """What the newest response to a model call says; empty where none was copied or it cannot be read.

    The span says what kept it from being a reply that the SDK took. Some SDKs take no reply for an empty one.

    Args:
        copy: Of the response.
        read: Reads a copy of the dialect.
        error: What ended the call, if that was not its reply.
        span: Of the call.
        recorder: Counts failures.
    """
    if copy is None:
        return ChatReply()
    try:
        reply = read(copy.content_type, copy.content())
    except ValueError:
        if error is None or isinstance(error, Exception):
            span.set(v.FAILED_REPLY, "unreadable")
        return ChatReply()
    except Exception as problem:
        recorder.failed("copied response", problem)
        return ChatReply()
    failed = isinstance(error, Exception)  # not one that was cut off
    if not reply.begun or (failed and not reply.ended):
        span.set(v.FAILED_REPLY, "unreadable")
        reply.response_id, reply.broken = None, True
    elif failed:
        span.set(v.FAILED_REPLY, "refused")
    return reply


def failed_try(status: int, retry_count: int | None, retry_after: float | None) -> dict[str, AttributeValue]:
    """What the event of a failed try tells."""
    about: dict[str, AttributeValue] = {"http.status_code": status, "retry_count": retry_count}
    return about if retry_after is None else about | {"retry_after": retry_after}


def set_known(span: SpanHandle, name: str, value: AttributeValue) -> None:
    """Set an attribute, unless nothing is known of it."""
    if value is not None:
        span.set(name, value)

"""What the events of one user line say of the model's replies, by ADK's own account."""

from __future__ import annotations

from typing import Any

from atp.protocol.model import Dialect
from atp.protocol.runner import Reply
from atp.protocol.status import StopReason
from atp.protocol.trace import Usage
from monitor.instruments.google_adk_responses import reply_of

_FILTERED = frozenset({"SAFETY", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY", "MODEL_ARMOR"})
"""Finish and block reasons of a filter, as Gemini and ADK's OpenAI models call them."""


class LineReplies:
    """Gathers the events of one `run_async`.

    Args:
        dialect: In which the model is asked.
    """

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._usages: list[Usage | None] = []
        self._ids: list[str | None] = []
        self._last: Any = None

    @property
    def count(self) -> int:
        """Replies so far."""
        return len(self._ids) + self._ended_in_silence

    def add(self, event: Any) -> None:
        """Take an event: a whole reply of a model, a part of one, or the results of tools."""
        if event.partial:
            return
        self._last = event
        if not event.get_function_responses():
            told = reply_of(event, self._dialect)
            self._usages.append(told.usage if _is_sound(told.usage) else None)
            self._ids.append(told.response_id)

    def reply(self) -> Reply:
        """All that ADK tells of the line."""
        answer = self.answer()
        if self._ended_in_silence:
            return answer
        usages = self._usages
        known = [each for each in self._ids if each is not None]
        return answer.model_copy(
            update={
                "usage": None if None in usages else Usage.total(each for each in usages if each),
                "model_calls": len(self._ids),
                # Only responses have ids that ADK keeps.
                "response_ids": tuple(known) if len(known) == len(self._ids) else None,
            }
        )

    def answer(self) -> Reply:
        """The last reply and how the line ended; its counts are left open."""
        if self._ended_in_silence:
            return Reply()
        event = self._last
        reasons = {_name(event.error_code), _name(event.finish_reason)}
        stop = StopReason.ANSWERED
        if reasons & _FILTERED:
            stop = StopReason.CONTENT_FILTER
        elif event.error_code is not None:
            stop = StopReason.HARNESS_ERROR
        native = {"error_code": _name(event.error_code), "error_message": event.error_message}
        return Reply(
            text=reply_of(event, self._dialect).text,
            stop_reason=stop,
            native={key: value for key, value in native.items() if value is not None},
        )

    @property
    def _ended_in_silence(self) -> bool:
        """Whether the last reply said nothing: of an empty stream ADK makes no event."""
        return self._last is None or bool(self._last.get_function_responses())


def _is_sound(usage: Usage | None) -> bool:
    return usage is not None and min(usage.input_tokens or 0, usage.output_tokens or 0) >= 0


def _name(reason: Any) -> str | None:
    """An error code is a text, or a member of one of Google's enumerations."""
    return None if reason is None else str(getattr(reason, "value", reason))

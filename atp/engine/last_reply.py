"""What the last model call of a run tells of the error that ended it.

SDKs raise whatever comes to hand when a reply cannot be read: a `JSONDecodeError`, an `IndexError`, an
`AttributeError` on a page of HTML. No class says whether the provider or the model is to blame, and some
SDKs raise nothing and take no reply for an answer. The instrument has seen what came.
"""

from __future__ import annotations

from collections.abc import Sequence

from atp.protocol.errors import AtpError, ReplyRefused, UnreadableReply
from atp.protocol.spans import Actor, SpanEnd
from atp.protocol.status import ErrorInfo, StopReason, classify
from monitor.vocabulary import ACTOR, FAILED_REPLY

_OPEN = frozenset({StopReason.UNCLASSIFIED, StopReason.HARNESS_ERROR})
"""What the table says of an error of which more can be known."""


def with_last_reply(error: ErrorInfo | None, model_ends: Sequence[SpanEnd]) -> ErrorInfo | None:
    """The error of a run as the table should see it.

    Args:
        error: What the harness raised; None when it came to its own end.
        model_ends: Model spans in the order of their ends.

    Returns:
        The error, told to be an `UnreadableReply` where the agent's last model call got one, and a
        `ReplyRefused` where the table does not know it and the SDK did not take a reply that was whole.
    """
    if error is not None and classify(error).stop_reason not in _OPEN:
        return error
    own = [span for span in model_ends if span.attributes.get(ACTOR, Actor.AGENT) == Actor.AGENT]
    match own[-1].attributes.get(FAILED_REPLY) if own else None:
        case "unreadable":
            return _told(UnreadableReply("the provider's answer is no reply of a model"), error)
        case "refused" if error is not None and classify(error).unclassified:
            return _told(ReplyRefused("the SDK does not take the model's reply"), error)
    return error


def _told(what: AtpError, error: ErrorInfo | None) -> ErrorInfo:
    told = ErrorInfo.of(what)
    if error is None:
        return told
    return error.model_copy(
        update={
            "code": told.code,
            "message": f"{told.message}: {error.message}",
            "classes": (*told.classes, *error.classes),
        }
    )

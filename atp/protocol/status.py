"""How a run ended, and the one table that says so.

The status never changes once written; a grade is apart from it. `classify` maps an error, live or
read back from the store, to (status, stop reason, fault, worth another try). An error is described
by plain data only (`ErrorInfo`), so the same table serves both. `docs/statuses.md` says why.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import Any

from pydantic import Field

from atp.protocol.base import Frozen
from atp.protocol.errors import AtpError, Fault, ModelCallFailed


class Status(StrEnum):
    """How a run ended."""

    COMPLETED = "completed"
    LIMIT = "limit"
    AGENT_ERROR = "agent_error"
    INFRA_ERROR = "infra_error"
    BENCHMARK_ERROR = "benchmark_error"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"

    @property
    def gradable(self) -> bool:
        """Whether a run that ended so goes to the grader."""
        return self in _GRADABLE


_GRADABLE = frozenset({Status.COMPLETED, Status.LIMIT, Status.AGENT_ERROR})


class StopReason(StrEnum):
    """What made a run stop."""

    ANSWERED = "answered"
    USER_STOP = "user_stop"
    TRANSFER = "transfer"
    MAX_TURNS = "max_turns"
    DEADLINE = "deadline"
    MAX_TOTAL_TOKENS = "max_total_tokens"
    MAX_COST = "max_cost"
    CONTEXT_LENGTH = "context_length"
    CONTENT_FILTER = "content_filter"
    HARNESS_ERROR = "harness_error"
    PROVIDER_ERROR = "provider_error"
    WORKER_ERROR = "worker_error"
    SETUP_ERROR = "setup_error"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"
    UNCLASSIFIED = "unclassified"

    @property
    def status(self) -> Status:
        """The status of a run whose harness returned with this reason: the same as where an SDK
        raises for it."""
        return _STATUS_OF_REASON.get(self, Status.COMPLETED)


_STATUS_OF_REASON = {
    StopReason.MAX_TURNS: Status.LIMIT,
    StopReason.DEADLINE: Status.LIMIT,
    StopReason.MAX_TOTAL_TOKENS: Status.LIMIT,
    StopReason.MAX_COST: Status.LIMIT,
    StopReason.CONTEXT_LENGTH: Status.LIMIT,
    StopReason.CONTENT_FILTER: Status.AGENT_ERROR,
    StopReason.HARNESS_ERROR: Status.AGENT_ERROR,
}


RETRY_DELAY = 0.5
"""Seconds before a second try, doubled for each further one; more where a provider asks for it."""


class ErrorInfo(Frozen):
    """An error as plain data: what the table needs and a person wants to read."""

    code: str
    """Machine-readable."""
    message: str
    fault: Fault = Fault.INFRASTRUCTURE
    classes: tuple[str, ...] = ()
    """Qualified names of the exception's classes and of all in its cause chain, outermost first."""
    http_status: int | None = None
    provider_code: str | None = None
    retry_after: float | None = Field(default=None, ge=0)
    """Seconds."""
    unclassified: bool = False
    """The table knew nothing about it."""

    @classmethod
    def of(cls, error: BaseException) -> ErrorInfo:
        """Describe a live exception. Reads the attributes that HTTP clients and SDKs commonly set."""
        chain = list(_cause_chain(error))
        classes = tuple(
            dict.fromkeys(
                f"{kind.__module__}.{kind.__qualname__}"
                for link in chain
                for kind in type(link).__mro__
                if kind not in (object, BaseException, Exception)
            )
        )
        own = error if isinstance(error, AtpError) else None
        return cls(
            code=own.code if own else _snake(type(error).__name__),
            message=str(error) or type(error).__name__,
            fault=own.fault if own else Fault.INFRASTRUCTURE,
            classes=classes or (f"{type(error).__module__}.{type(error).__qualname__}",),
            http_status=_first(chain, "status_code", int) or _google_status(chain),
            provider_code=_first(chain, "provider_code", str)
            or _first(chain, "code", str, skip=AtpError)
            or _google_reason(chain),
            retry_after=_retry_after(chain),
        )


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of the table. What is None matches anything; at least one condition is set."""

    status: Status
    stop_reason: StopReason
    fault: Fault
    retry: bool
    error_class: str | None = None
    """A qualified class name anywhere in the cause chain, base classes included."""
    http_status: range | None = None
    provider_code: str | None = None

    def matches(self, error: ErrorInfo) -> bool:
        """Whether every condition of the rule holds for the error."""
        return (
            (self.error_class is None or self.error_class in error.classes)
            and (self.provider_code is None or self.provider_code == error.provider_code)
            and (
                self.http_status is None
                or (error.http_status is not None and error.http_status in self.http_status)
            )
        )


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the table says about an error."""

    status: Status
    stop_reason: StopReason
    fault: Fault
    retry: bool
    unclassified: bool = False


_S, _R, _F = Status, StopReason, Fault
_OWN_CALL = "atp.protocol.errors.ModelCallFailed"

TABLE: tuple[Rule, ...] = (
    # Model calls of the engine's own, for a user or a judge: whatever the provider says of them, it is
    # not said of the agent.
    Rule(
        _S.INFRA_ERROR,
        _R.PROVIDER_ERROR,
        _F.USER,
        False,
        error_class=_OWN_CALL,
        provider_code="insufficient_quota",
    ),
    Rule(
        _S.INFRA_ERROR,
        _R.PROVIDER_ERROR,
        _F.INFRASTRUCTURE,
        True,
        error_class=_OWN_CALL,
        http_status=range(408, 410),
    ),
    Rule(
        _S.INFRA_ERROR,
        _R.PROVIDER_ERROR,
        _F.INFRASTRUCTURE,
        True,
        error_class=_OWN_CALL,
        http_status=range(429, 430),
    ),
    Rule(
        _S.INFRA_ERROR,
        _R.PROVIDER_ERROR,
        _F.USER,
        False,
        error_class=_OWN_CALL,
        http_status=range(400, 500),
    ),
    Rule(_S.INFRA_ERROR, _R.PROVIDER_ERROR, _F.INFRASTRUCTURE, True, error_class=_OWN_CALL),
    # What the provider says about the request itself: the most exact first.
    Rule(_S.LIMIT, _R.CONTEXT_LENGTH, _F.AGENT, False, provider_code="context_length_exceeded"),
    Rule(_S.AGENT_ERROR, _R.CONTENT_FILTER, _F.AGENT, False, provider_code="content_filter"),
    Rule(_S.INFRA_ERROR, _R.PROVIDER_ERROR, _F.USER, False, provider_code="insufficient_quota"),
    # Google says so by 400.
    Rule(_S.INFRA_ERROR, _R.PROVIDER_ERROR, _F.USER, False, provider_code="API_KEY_INVALID"),
    # A scripted model that repeats a stored run got another request than the run made.
    Rule(_S.INFRA_ERROR, _R.PROVIDER_ERROR, _F.USER, False, provider_code="replay_diverged"),
    # Limits: ours, then those of the SDKs.
    Rule(_S.LIMIT, _R.MAX_TURNS, _F.AGENT, False, error_class="langgraph.errors.GraphRecursionError"),
    Rule(_S.LIMIT, _R.MAX_TURNS, _F.AGENT, False, error_class="agents.exceptions.MaxTurnsExceeded"),
    Rule(
        _S.LIMIT,
        _R.MAX_TURNS,
        _F.AGENT,
        False,
        error_class="google.adk.agents.invocation_context.LlmCallsLimitExceededError",
    ),
    # Our own errors.
    Rule(
        _S.BENCHMARK_ERROR,
        _R.SETUP_ERROR,
        _F.BENCHMARK,
        False,
        error_class="atp.protocol.errors.BenchmarkError",
    ),
    Rule(_S.INFRA_ERROR, _R.SETUP_ERROR, _F.USER, False, error_class="atp.protocol.errors.UsageError"),
    Rule(
        _S.INFRA_ERROR, _R.WORKER_ERROR, _F.INFRASTRUCTURE, True, error_class="atp.protocol.errors.WorkerDied"
    ),
    Rule(
        _S.INFRA_ERROR, _R.WORKER_ERROR, _F.INFRASTRUCTURE, True, error_class="atp.protocol.errors.LinkBroken"
    ),
    Rule(
        _S.INFRA_ERROR,
        _R.SETUP_ERROR,
        _F.INFRASTRUCTURE,
        False,
        error_class="atp.protocol.errors.SandboxUnavailable",
    ),
    Rule(
        _S.INFRA_ERROR, _R.WORKER_ERROR, _F.INFRASTRUCTURE, True, error_class="atp.protocol.errors.StoreError"
    ),
    Rule(
        _S.INFRA_ERROR,
        _R.PROVIDER_ERROR,
        _F.INFRASTRUCTURE,
        True,
        error_class="atp.protocol.errors.UnreadableReply",
    ),
    Rule(_S.AGENT_ERROR, _R.HARNESS_ERROR, _F.AGENT, False, error_class="atp.protocol.errors.AgentError"),
    Rule(_S.AGENT_ERROR, _R.HARNESS_ERROR, _F.AGENT, False, error_class="atp.protocol.errors.ToolFailed"),
    Rule(
        _S.AGENT_ERROR, _R.CONTENT_FILTER, _F.AGENT, False, error_class="agents.exceptions.ModelRefusalError"
    ),
    # HTTP statuses of the model's provider (RFC 9110; 408, 409 and 429 may be tried again).
    Rule(_S.INFRA_ERROR, _R.PROVIDER_ERROR, _F.USER, False, http_status=range(401, 405)),
    Rule(_S.INFRA_ERROR, _R.PROVIDER_ERROR, _F.INFRASTRUCTURE, True, http_status=range(408, 410)),
    Rule(_S.INFRA_ERROR, _R.PROVIDER_ERROR, _F.INFRASTRUCTURE, True, http_status=range(429, 430)),
    Rule(_S.INFRA_ERROR, _R.PROVIDER_ERROR, _F.INFRASTRUCTURE, True, http_status=range(500, 600)),
    Rule(_S.AGENT_ERROR, _R.PROVIDER_ERROR, _F.AGENT, False, http_status=range(400, 500)),
    # No answer at all, or an error within a stream, which has no HTTP status.
    Rule(_S.INFRA_ERROR, _R.PROVIDER_ERROR, _F.INFRASTRUCTURE, True, error_class="openai.APIError"),
    Rule(_S.INFRA_ERROR, _R.PROVIDER_ERROR, _F.INFRASTRUCTURE, True, error_class="httpx.TransportError"),
    Rule(_S.INFRA_ERROR, _R.PROVIDER_ERROR, _F.INFRASTRUCTURE, True, error_class="builtins.ConnectionError"),
    Rule(_S.INFRA_ERROR, _R.PROVIDER_ERROR, _F.INFRASTRUCTURE, True, error_class="builtins.TimeoutError"),
    # What the model wrote holds half of a surrogate pair, and the SDK cannot send it back.
    Rule(_S.AGENT_ERROR, _R.HARNESS_ERROR, _F.AGENT, False, error_class="builtins.UnicodeEncodeError"),
    # What an SDK raises of its own accord: the model called a tool that does not exist, a guardrail fired.
    Rule(_S.AGENT_ERROR, _R.HARNESS_ERROR, _F.AGENT, False, error_class="agents.exceptions.AgentsException"),
    # The agent made the same call with the same result for the fifth time.
    Rule(
        _S.AGENT_ERROR,
        _R.HARNESS_ERROR,
        _F.AGENT,
        False,
        error_class="crewai.tools.tool_failure.ToolExecutionFailedError",
    ),
)
"""The built-in rules; the first that matches decides. Users put their own before them."""


def classify(error: ErrorInfo, extra: Sequence[Rule] = ()) -> Verdict:
    """What the error makes of the run.

    Args:
        error: The error as data, live or stored.
        extra: A user's own rules, asked first.

    Returns:
        The first matching rule's verdict; for what no rule knows, `infra_error` marked
        unclassified, not tried again.
    """
    for rule in (*extra, *TABLE):
        if rule.matches(error):
            return Verdict(rule.status, rule.stop_reason, rule.fault, rule.retry)
    return Verdict(Status.INFRA_ERROR, StopReason.UNCLASSIFIED, error.fault, False, unclassified=True)


def retry_delay(tries: int, error: ErrorInfo | None) -> float:
    """Seconds to wait before the next try.

    Args:
        tries: Tries made now, at least 1.
        error: What ended the last one; a provider may have asked for more time.
    """
    asked = error.retry_after if error is not None and error.retry_after is not None else 0.0
    return max(RETRY_DELAY * 2.0 ** (tries - 1), asked)


def retry_seconds(value: str) -> float | None:
    """The seconds that a `Retry-After` header asks for: a number of them, or a date (RFC 9110, 10.2.3).

    Args:
        value: The header's value.

    Returns:
        Seconds from now, at least 0; None when the value is neither.
    """
    text = value.strip()
    if text.replace(".", "", 1).isdecimal() and text.isascii():  # providers send fractions too
        return float(text)
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max((moment - datetime.now(UTC)).total_seconds(), 0.0)


def _cause_chain(error: BaseException) -> Sequence[BaseException]:
    chain: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and link not in chain:
        chain.append(link)
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)
    return chain


def _first(chain: Sequence[BaseException], name: str, kind: type, skip: type | tuple[()] = ()) -> Any:
    for link in chain:
        value = getattr(link, name, None)
        if isinstance(value, kind) and not isinstance(link, skip):
            return value
    return None


def _google_status(chain: Sequence[BaseException]) -> int | None:
    """Of Google's client, whose errors call it `code`; so does `SystemExit` another number."""
    code = _first(chain, "code", int)
    return code if code is not None and 400 <= code < 600 else None


_GOOGLE_OVERFLOW = "exceeds the maximum number of tokens allowed"
"""What Gemini says of a request that is too long: it has no reason for that, only INVALID_ARGUMENT
(https://github.com/google-gemini/gemini-cli/issues/4231 shows one)."""


def _google_reason(chain: Sequence[BaseException]) -> str | None:
    """The `google.rpc.ErrorInfo` in the body of an error, which Google's client keeps as `details`; of a
    request that is too long OpenAI's code for that."""
    body = _first(chain, "details", dict)
    error = body.get("error") if body is not None else None
    if not isinstance(error, dict):
        return None
    infos = error.get("details")
    for info in infos if isinstance(infos, list) else ():
        if isinstance(info, dict) and isinstance(info.get("reason"), str):
            reason: str = info["reason"]
            return reason
    if error.get("status") == "INVALID_ARGUMENT" and _GOOGLE_OVERFLOW in str(error.get("message")):
        return "context_length_exceeded"
    return None


def _retry_after(chain: Sequence[BaseException]) -> float | None:
    for link in chain:
        if isinstance(link, ModelCallFailed) and link.retry_after is not None:
            return link.retry_after
        headers = getattr(getattr(link, "response", None), "headers", None)
        value = headers.get("retry-after") if headers is not None else None
        if value is not None and (seconds := retry_seconds(value)) is not None:
            return seconds
    return None


def _snake(name: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() and i else c.lower() for i, c in enumerate(name))

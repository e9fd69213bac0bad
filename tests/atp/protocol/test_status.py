"""The status table: one answer for an error, live or read back."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atp.protocol import errors
from atp.protocol.errors import AtpError, Fault
from atp.protocol.status import TABLE, ErrorInfo, Rule, Status, StopReason, classify


class HttpError(Exception):
    """Shaped like the errors of the usual clients."""

    def __init__(self, status: int, code: str | None = None, headers: dict[str, str] | None = None) -> None:
        super().__init__(f"HTTP {status}")
        self.status_code = status
        self.code = code
        self.response = type("Response", (), {"headers": headers or {}})()


class GoogleError(Exception):
    """Shaped like those of google-genai, which keep the whole body (google/genai/errors.py `APIError`)."""

    def __init__(self, code: int, status: str, message: str, reason: str | None = None) -> None:
        super().__init__(f"{code} {status}")
        self.code = code
        infos = [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason}] if reason else []
        self.details = {"error": {"code": code, "message": message, "status": status, "details": infos}}


TOO_LONG = "The input token count (1200293) exceeds the maximum number of tokens allowed (1048576)."
"""As github.com/google-gemini/gemini-cli/issues/6678 shows it."""


def wrapped(error: Exception) -> Exception:
    """The error as an SDK's own exception hides it."""
    try:
        try:
            raise error
        except Exception as cause:
            raise RuntimeError("the graph failed") from cause
    except RuntimeError as outer:
        return outer


def verdict(error: BaseException) -> tuple[Status, StopReason, Fault, bool]:
    got = classify(ErrorInfo.of(error))
    return got.status, got.stop_reason, got.fault, got.retry


S, R, F = Status, StopReason, Fault


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (HttpError(429), (S.INFRA_ERROR, R.PROVIDER_ERROR, F.INFRASTRUCTURE, True)),
        (HttpError(500), (S.INFRA_ERROR, R.PROVIDER_ERROR, F.INFRASTRUCTURE, True)),
        (HttpError(503), (S.INFRA_ERROR, R.PROVIDER_ERROR, F.INFRASTRUCTURE, True)),
        (HttpError(401), (S.INFRA_ERROR, R.PROVIDER_ERROR, F.USER, False)),
        (HttpError(404), (S.INFRA_ERROR, R.PROVIDER_ERROR, F.USER, False)),
        (HttpError(400), (S.AGENT_ERROR, R.PROVIDER_ERROR, F.AGENT, False)),
        (HttpError(400, "context_length_exceeded"), (S.LIMIT, R.CONTEXT_LENGTH, F.AGENT, False)),
        (HttpError(429, "insufficient_quota"), (S.INFRA_ERROR, R.PROVIDER_ERROR, F.USER, False)),
        (GoogleError(400, "INVALID_ARGUMENT", TOO_LONG), (S.LIMIT, R.CONTEXT_LENGTH, F.AGENT, False)),
        (GoogleError(400, "INVALID_ARGUMENT", "No."), (S.AGENT_ERROR, R.PROVIDER_ERROR, F.AGENT, False)),
        (
            GoogleError(400, "INVALID_ARGUMENT", "API key not valid.", "API_KEY_INVALID"),
            (S.INFRA_ERROR, R.PROVIDER_ERROR, F.USER, False),
        ),
        (
            GoogleError(503, "UNAVAILABLE", "overloaded"),
            (S.INFRA_ERROR, R.PROVIDER_ERROR, F.INFRASTRUCTURE, True),
        ),
        (errors.ModelCallFailed("x"), (S.INFRA_ERROR, R.PROVIDER_ERROR, F.INFRASTRUCTURE, True)),
        (
            errors.ModelCallFailed("x", status_code=429),
            (S.INFRA_ERROR, R.PROVIDER_ERROR, F.INFRASTRUCTURE, True),
        ),
        (
            errors.ModelCallFailed("x", status_code=400, provider_code="context_length_exceeded"),
            (S.INFRA_ERROR, R.PROVIDER_ERROR, F.USER, False),
        ),
        (
            errors.ModelCallFailed("x", status_code=400, provider_code="content_filter"),
            (S.INFRA_ERROR, R.PROVIDER_ERROR, F.USER, False),
        ),
        (
            errors.ModelCallFailed("x", status_code=429, provider_code="insufficient_quota"),
            (S.INFRA_ERROR, R.PROVIDER_ERROR, F.USER, False),
        ),
        (
            wrapped(errors.ModelCallFailed("x", status_code=500)),
            (S.INFRA_ERROR, R.PROVIDER_ERROR, F.INFRASTRUCTURE, True),
        ),
        (ConnectionRefusedError("no"), (S.INFRA_ERROR, R.PROVIDER_ERROR, F.INFRASTRUCTURE, True)),
        (TimeoutError(), (S.INFRA_ERROR, R.PROVIDER_ERROR, F.INFRASTRUCTURE, True)),
        (errors.InvalidInput("x"), (S.INFRA_ERROR, R.SETUP_ERROR, F.USER, False)),
        (errors.WorkerDied("x"), (S.INFRA_ERROR, R.WORKER_ERROR, F.INFRASTRUCTURE, True)),
        (errors.BenchmarkError("x"), (S.BENCHMARK_ERROR, R.SETUP_ERROR, F.BENCHMARK, False)),
        (errors.SandboxUnavailable("x"), (S.INFRA_ERROR, R.SETUP_ERROR, F.INFRASTRUCTURE, False)),
        (errors.AgentError("x"), (S.AGENT_ERROR, R.HARNESS_ERROR, F.AGENT, False)),
        (errors.ToolFailed("x"), (S.AGENT_ERROR, R.HARNESS_ERROR, F.AGENT, False)),
    ],
    ids=lambda value: (
        type(value).__name__ + getattr(value, "message", "") if isinstance(value, Exception) else ""
    ),
)
@pytest.mark.parametrize("hide", [lambda error: error, wrapped], ids=["bare", "in a cause chain"])
def test_an_error_is_known_wherever_it_hides(error: Exception, expected: Any, hide: Any) -> None:
    assert verdict(hide(error)) == expected


@given(st.integers(min_value=100, max_value=599) | st.none(), st.text() | st.none(), st.lists(st.text()))
def test_a_stored_error_gets_the_same_verdict_as_the_live_one(
    status: int | None, code: str | None, classes: list[str]
) -> None:
    live = ErrorInfo(code="c", message="m", http_status=status, provider_code=code, classes=tuple(classes))
    assert classify(ErrorInfo.model_validate_json(live.model_dump_json())) == classify(live)


def test_what_the_table_does_not_know_is_infra_error_marked_unclassified() -> None:
    got = classify(ErrorInfo.of(ZeroDivisionError("x")))
    assert (got.status, got.stop_reason, got.retry, got.unclassified) == (
        Status.INFRA_ERROR,
        StopReason.UNCLASSIFIED,
        False,
        True,
    )


def test_a_users_rule_is_asked_first() -> None:
    mine = Rule(S.AGENT_ERROR, R.HARNESS_ERROR, F.AGENT, False, error_class="builtins.ZeroDivisionError")
    assert classify(ErrorInfo.of(ZeroDivisionError("x")), extra=[mine]).status is Status.AGENT_ERROR


def test_retry_after_is_read_from_the_response() -> None:
    assert ErrorInfo.of(wrapped(HttpError(429, headers={"retry-after": "2.5"}))).retry_after == 2.5
    assert ErrorInfo.of(HttpError(429)).retry_after is None


def test_base_classes_count_as_classes_of_the_chain() -> None:
    assert "builtins.ConnectionError" in ErrorInfo.of(ConnectionResetError("x")).classes


def test_a_cancelled_error_can_be_described() -> None:
    assert ErrorInfo.of(asyncio.CancelledError()).classes == ("asyncio.exceptions.CancelledError",)


def test_a_cause_chain_that_bites_its_tail_ends() -> None:
    first, second = ValueError("a"), ValueError("b")
    first.__cause__, second.__cause__ = second, first
    assert ErrorInfo.of(first).classes == ("builtins.ValueError",)


@pytest.mark.parametrize("rule", TABLE, ids=str)
def test_no_rule_of_the_table_matches_everything(rule: Rule) -> None:
    assert not rule.matches(ErrorInfo(code="c", message="m"))


@pytest.mark.parametrize(
    ("status", "gradable"),
    [
        (Status.COMPLETED, True),
        (Status.LIMIT, True),
        (Status.AGENT_ERROR, True),
        (Status.INFRA_ERROR, False),
        (Status.BENCHMARK_ERROR, False),
        (Status.CANCELLED, False),
        (Status.INTERRUPTED, False),
    ],
)
def test_only_the_first_three_statuses_can_be_graded(status: Status, gradable: bool) -> None:
    assert status.gradable is gradable


def _kinds(kind: type[AtpError]) -> list[type[AtpError]]:
    return [kind, *(deeper for child in kind.__subclasses__() for deeper in _kinds(child))]


@pytest.mark.parametrize("kind", _kinds(AtpError))
def test_every_error_has_a_code_and_a_fault(kind: type[AtpError]) -> None:
    assert kind("m").code
    assert isinstance(kind.fault, Fault)


@pytest.mark.parametrize(
    ("error_class", "status", "stop_reason"),
    [
        ("agents.exceptions.MaxTurnsExceeded", Status.LIMIT, StopReason.MAX_TURNS),
        ("agents.exceptions.ModelRefusalError", Status.AGENT_ERROR, StopReason.CONTENT_FILTER),
        ("agents.exceptions.AgentsException", Status.AGENT_ERROR, StopReason.HARNESS_ERROR),
    ],
)
def test_what_an_sdk_calls_a_limit_or_the_models_mistake_is_one(
    error_class: str, status: Status, stop_reason: StopReason
) -> None:
    verdict = classify(ErrorInfo(code="x", message="x", classes=(error_class,)))
    assert (verdict.status, verdict.stop_reason, verdict.retry) == (status, stop_reason, False)


def test_what_the_engines_own_call_was_told_is_kept() -> None:
    told = errors.ModelCallFailed("x", status_code=429, provider_code="rate_limit_exceeded", retry_after=7.5)
    info = ErrorInfo.of(told)
    assert (info.code, info.http_status, info.provider_code, info.retry_after) == (
        "model_call",
        429,
        "rate_limit_exceeded",
        7.5,
    )

"""Redaction: what counts as a secret by name, by shape and by value, and what does not."""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atp.protocol.redaction import Redactor
from atp.protocol.secret_names import secret_kind
from atp.protocol.trace import Usage
from monitor import vocabulary

REDACTOR = Redactor({"SERVICE_TOKEN": "quartz-lantern-42"})
TAIL = "9Zq4vT7mXw2Lk8RbN5Jd3HcFp6Gs1Ay0Ue"  # 34 characters

SHAPES = {
    "openai-key": f"sk-proj-{TAIL}",
    "anthropic-key": f"sk-ant-api03-{TAIL}",
    "google-key": f"AIza{TAIL}x",
    "huggingface-token": f"hf_{TAIL}",
    "github-token": f"ghp_{TAIL}xy",
    "gitlab-token": f"glpat-{TAIL[:20]}",
    "aws-key": "AKIAIOSFODNN7EXAMPLE",  # from AWS's own documentation
    "slack-token": "xoxb-1234567890-abcdefghij",
    "stripe-key": f"sk_live_{TAIL[:24]}",
    "groq-key": f"gsk_{TAIL}",
    "xai-key": f"xai-{TAIL}",
    "scripted-key": f"atp-scripted-{TAIL}",
    # RFC 7519, 3.1
    "jwt": "eyJ0eXAiOiJKV1QiLCJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJqb2UiLCJleHAiOjEzMDA4MTkzODB9.dBjftJeZ4CVP",
    "private-key": "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEE\nIIGl\n-----END EC PRIVATE KEY-----",
}  # fmt: skip


@pytest.mark.parametrize("kind", SHAPES)
def test_a_key_is_found_by_its_shape_and_replaced_by_its_kind(kind: str) -> None:
    assert REDACTOR.text(f"it said: {SHAPES[kind]} and went on") == f"it said: [redacted:{kind}] and went on"


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        (
            "Incorrect API key provided: sk-proj-****abcd.",
            "Incorrect API key provided: [redacted:openai-key].",
        ),
        ("curl -H 'Authorization: Bearer a1b2c3d4e5f6'", "curl -H 'Authorization: Bearer [redacted:bearer]'"),
        ("Authorization: Basic dXNlcjpwYXNz=", "Authorization: Basic [redacted:authorization]"),
        ("Set-Cookie: sid=31d4d96e; Path=/", "Set-Cookie: [redacted:cookie]"),
        ("postgres://atp:hunter22@db/x", "postgres://[redacted:url-credentials]@db/x"),
        ("GET /v1?api_key=abcd1234&n=1", "GET /v1?api_key=[redacted:api-key]&n=1"),
        ('{"password": "hunter2"}', '{"password": "[redacted:password]"}'),
        ('{"a": "{\\"apiKey\\": \\"hunter2\\"}"}', '{"a": "{\\"apiKey\\": \\"[redacted:api-key]\\"}"}'),
        ("login(password='hunter2')", "login(password='[redacted:password]')"),
        ("MY_SIGNING_KEY=abcdefgh1", "MY_SIGNING_KEY=[redacted:private-key]"),
        ("password: hunter2x99", "password: [redacted:password]"),
        ("x quartz-lantern-42 y", "x [redacted:SERVICE_TOKEN] y"),
    ],
)
def test_a_secret_within_text_is_found(text: str, clean: str) -> None:
    assert REDACTOR.text(text) == clean


@pytest.mark.parametrize(
    "text",
    [
        "max_tokens=100000000 input_tokens: 12345678901",
        "next_page_token='abcdefgh12345'",
        "token = stack.pop()",
        "the secret of this task: nobody knows",
        "task-force-of-the-month-2024-budget",
        "sk-fading-circle-loader",
        "Asia, the bearer of good news, and a basket of keys",
        "mail to ada@example.org or see https://example.org/a?b=c",
        "http://127.0.0.1:8000/v1",
        "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8",
    ],
)
def test_what_only_looks_a_little_like_a_secret_stays(text: str) -> None:
    assert REDACTOR.text(text) is text


def test_a_value_is_redacted_for_its_name_however_deep_it_lies() -> None:
    value = {
        "headers": {"X-API-Key": "abc", "accept": "*/*", "Cookie": ["a=b"]},
        "list": [{"accessToken": "x", "password": 1234, "tokens": ["a"], "token": None}],
        "credentials": {"user": "ada", "value": "b"},
    }
    assert REDACTOR.value(value) == {
        "headers": {"X-API-Key": "[redacted:api-key]", "accept": "*/*", "Cookie": ["[redacted:cookie]"]},
        "list": [
            {
                "accessToken": "[redacted:token]",
                "password": "[redacted:password]",
                "tokens": ["a"],
                "token": None,
            }
        ],
        "credentials": {"user": "[redacted:credentials]", "value": "[redacted:credentials]"},
    }


def test_a_schema_that_describes_a_password_stays() -> None:
    schema = {"type": "object", "properties": {"password": {"type": "string"}}, "required": ["password"]}
    assert REDACTOR.value(schema) is schema


def test_the_words_of_log_probabilities_stay() -> None:
    value = {"content": [{"token": "Hello", "logprob": -0.1}]}
    assert REDACTOR.value(value) is value


def test_where_keys_are_data_only_values_count() -> None:
    value = {"reset-password": "1f" * 32, "x": "quartz-lantern-42"}
    assert REDACTOR.value(value, by_name=False) == {
        "reset-password": "1f" * 32,
        "x": "[redacted:SERVICE_TOKEN]",
    }


def test_a_known_value_is_found_where_json_has_escaped_it() -> None:
    redactor = Redactor({"A_SECRET": 'pass"word\\é'})
    for text in ('pass"word\\é', json.dumps('pass"word\\é'), json.dumps('pass"word\\é', ensure_ascii=False)):
        assert redactor.text(text).strip('"') == "[redacted:A_SECRET]"


def test_a_known_value_of_seven_characters_is_not_looked_for() -> None:
    assert Redactor({"A_SECRET": "hunter2"}).text("the hunter2 went") == "the hunter2 went"


def test_an_environment_gives_its_secrets_and_the_passwords_of_its_urls(tmp_path: Path) -> None:
    redactor = Redactor.of_environment(
        {
            "OPENAI_API_KEY": "value-number-one",
            "PGPASSWORD": "value-number-two",
            "SSL_KEY": str(tmp_path),  # a path is no secret
            "DATABASE_URL": "postgres://ada:value-number-four@host/x",
            "PATH": "/usr/bin:/bin:/usr/sbin",
        }
    )
    assert redactor.known == {
        "value-number-one": "OPENAI_API_KEY",
        "value-number-two": "PGPASSWORD",
        "value-number-four": "DATABASE_URL",
    }


def test_the_names_of_usage_and_of_the_vocabulary_are_no_secrets() -> None:
    names = [value for name, value in vars(vocabulary).items() if name.isupper() and isinstance(value, str)]
    assert [name for name in (*names, *Usage.model_fields) if secret_kind(name) is not None] == []


WORD = st.sampled_from(
    [
        "input",
        "output",
        "max",
        "prompt",
        "completion",
        "cached",
        "reasoning",
        "total",
        "count",
        "usage",
        "per",
    ]
)
COUNTS = st.one_of(
    st.builds("_".join, st.lists(WORD, min_size=1, max_size=4)).map(lambda name: f"{name}_tokens"),
    st.sampled_from(
        ["token_count", "tokenCount", "tokens", "num_tokens", "max_token", "input_token", "n_tokens"]
    ),
)


@given(st.dictionaries(COUNTS, st.integers(0, 10**9) | st.floats(0, 1) | st.integers(0, 10**9).map(str)))
def test_counts_of_tokens_are_never_eaten(usage: dict[str, Any]) -> None:
    assert REDACTOR.value({"usage": usage}) == {"usage": usage}
    text = json.dumps(usage) + " " + " ".join(f"{name}={count}" for name, count in usage.items())
    assert REDACTOR.text(text) is text


@given(st.binary(min_size=8, max_size=64))
def test_digests_and_identifiers_stay(seed: bytes) -> None:
    digest = hashlib.sha256(seed).hexdigest()
    texts = [
        digest,
        digest[:16],
        digest[:32],
        str(uuid.UUID(digest[:32])),
        f"run-{digest[:12]}",
        f"call_{digest[:24]}",
    ]
    value = {
        "id": texts,
        "parent_id": digest[:16],
        "response_id": f"chatcmpl-{digest[:24]}",
        "file_id": digest,
    }
    assert REDACTOR.value(value) is value


SECRETS = st.sampled_from([*SHAPES.values(), "quartz-lantern-42"])


@given(
    st.lists(
        st.text(max_size=20) | SECRETS | st.sampled_from(['"password": "', "token='", "Cookie: ", "://a:b@"])
    )
)
def test_what_is_redacted_once_is_not_changed_again(parts: list[str]) -> None:
    once = REDACTOR.text(" ".join(parts))
    assert REDACTOR.text(once) is once


@given(before=st.text(max_size=30), secret=SECRETS, after=st.text(max_size=30))
def test_no_neighbour_hides_a_secret(before: str, secret: str, after: str) -> None:
    assert secret not in REDACTOR.text(f"{before} {secret} {after}")


@given(kind=st.sampled_from(sorted(SHAPES)), length=st.integers(0, 40))
def test_the_replacement_says_nothing_of_length_or_part(kind: str, length: int) -> None:
    if kind in ("openai-key", "anthropic-key", "slack-token", "huggingface-token", "groq-key"):
        assert REDACTOR.text(SHAPES[kind] + "a" * length) == f"[redacted:{kind}]"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("abxyz", max_size=5), inner, max_size=3)
    ),
)


@given(JSON)
def test_a_value_without_secrets_is_given_back_itself(value: Any) -> None:
    assert REDACTOR.value(value) is value


def test_what_is_nested_beyond_all_reason_goes_as_a_whole() -> None:
    value: Any = "x"
    for _ in range(5000):
        value = [value]
    assert REDACTOR.value(value) == "[redacted:nesting]"


@pytest.mark.parametrize(
    "text",
    [
        "sk-" * 20_000,
        "password=" * 10_000,
        "eyJ" * 30_000,
        "://" * 30_000,
        "-----BEGIN " * 9_000,
        "a" * 100_000,
    ],
)
def test_text_made_to_be_slow_is_searched_in_few_steps(text: str) -> None:
    assert isinstance(REDACTOR.text(text), str)  # a pattern that backtracks would not come back


def test_every_kind_of_replacement_has_one_form() -> None:
    for secret in SHAPES.values():
        assert re.fullmatch(r"\[redacted:[a-z-]+\]", REDACTOR.text(secret))

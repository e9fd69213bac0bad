"""Where a provider's models are reached."""

from __future__ import annotations

import pytest

from atp.models import PROVIDERS, SCRIPTED_DIALECTS, ModelRef, dialects_of, provider_endpoint
from atp.models.scripted.dialects.routes import DIALECTS
from atp.protocol.errors import InvalidInput, NotReady
from atp.protocol.model import Dialect

GPT = ModelRef.parse("openai/gpt-5.2")
CHAT = Dialect.OPENAI_CHAT


def test_a_key_alone_reaches_the_providers_own_address() -> None:
    endpoint = provider_endpoint(GPT, CHAT, None, {"OPENAI_API_KEY": "sk-1"})
    assert endpoint.base_url == "https://api.openai.com/v1"
    assert endpoint.api_key.get_secret_value() == "sk-1"
    assert (endpoint.model, endpoint.provider, endpoint.dialect) == ("gpt-5.2", "openai", CHAT)


def test_the_option_goes_before_the_variable() -> None:
    env = {"OPENAI_API_KEY": "sk-1", "OPENAI_BASE_URL": "http://variable:1/v1/"}
    assert provider_endpoint(GPT, CHAT, None, env).base_url == "http://variable:1/v1"
    assert provider_endpoint(GPT, CHAT, "http://option:2/v1", env).base_url == "http://option:2/v1"


@pytest.mark.parametrize(
    ("name", "variable"),
    [("openai", "OPENAI_API_KEY"), ("anthropic", "ANTHROPIC_API_KEY"), ("google", "GOOGLE_API_KEY")],
)
def test_a_missing_key_names_its_variable(name: str, variable: str) -> None:
    with pytest.raises(NotReady, match=variable):
        provider_endpoint(ModelRef(name, "m"), PROVIDERS[name].dialects[0], None, {})


@pytest.mark.parametrize("env", [{}, {"OPENAI_BASE_URL": "http://elsewhere/v1"}])
def test_a_server_of_ones_own_needs_no_key(env: dict[str, str]) -> None:
    option = None if env else "http://127.0.0.1:8000/v1"
    assert provider_endpoint(GPT, CHAT, option, env).api_key.get_secret_value() == "not-needed"


def test_the_providers_address_given_by_hand_still_needs_a_key() -> None:
    with pytest.raises(NotReady):
        provider_endpoint(GPT, CHAT, "https://api.openai.com/v1/", {})


@pytest.mark.parametrize(
    "url", ["localhost:8000", "ftp://host/v1", "http://", "http://[1/v1", "http://h/?a=1"]
)
def test_what_is_no_base_url_is_refused_by_its_source(url: str) -> None:
    with pytest.raises(InvalidInput, match="--base-url"):
        provider_endpoint(GPT, CHAT, url, {})


def test_a_password_in_the_url_is_refused_and_not_shown() -> None:
    with pytest.raises(InvalidInput) as caught:
        provider_endpoint(GPT, CHAT, "http://me:hunter2@host/v1", {})
    assert "hunter2" not in str(caught.value)


def test_a_malformed_key_is_refused_and_not_shown() -> None:
    with pytest.raises(InvalidInput) as caught:
        provider_endpoint(GPT, CHAT, None, {"OPENAI_API_KEY": "sk-secret\n"})
    assert "sk-secret" not in str(caught.value)


def test_a_dialect_the_provider_does_not_speak_is_refused() -> None:
    with pytest.raises(InvalidInput, match="openai-chat, openai-responses"):
        provider_endpoint(GPT, Dialect.GEMINI, None, {"OPENAI_API_KEY": "sk-1"})


def test_a_scripted_model_takes_no_base_url() -> None:
    with pytest.raises(InvalidInput, match="takes no base URL"):
        provider_endpoint(ModelRef.parse("scripted/noop"), CHAT, "http://host/v1", {})


def test_the_scripted_dialects_are_those_the_endpoint_serves() -> None:
    assert set(SCRIPTED_DIALECTS) == set(DIALECTS)
    assert dialects_of(ModelRef.parse("scripted/noop")) == SCRIPTED_DIALECTS
    assert Dialect.OPENAI_RESPONSES in dialects_of(GPT)

"""Providers as data: where their models are reached, in which dialects, under which variables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pydantic import SecretStr

from atp.protocol.errors import InvalidInput, NotReady
from atp.protocol.model import Dialect, ModelEndpoint

if TYPE_CHECKING:
    from atp.models.ref import ModelRef

PLACEHOLDER_KEY = "not-needed"
"""Sent where a server of one's own is named and no key is set: OpenAI-compatible servers often
ask for none, while model clients refuse to start without one."""

SCRIPTED_DIALECTS: tuple[Dialect, ...] = (
    Dialect.OPENAI_CHAT,
    Dialect.OPENAI_RESPONSES,
    Dialect.ANTHROPIC_MESSAGES,
    Dialect.GEMINI,
)
"""What the scripted endpoint speaks."""


@dataclass(frozen=True, slots=True)
class Provider:
    """A company or server family, by what a client has to know of it."""

    name: str
    title: str
    dialects: tuple[Dialect, ...]
    key_variable: str
    base_url_variable: str
    default_base_url: str


PROVIDERS: Mapping[str, Provider] = {
    provider.name: provider
    for provider in (
        Provider(
            name="openai",
            title="OpenAI, and every OpenAI-compatible server by base URL",
            dialects=(Dialect.OPENAI_CHAT, Dialect.OPENAI_RESPONSES),
            key_variable="OPENAI_API_KEY",
            base_url_variable="OPENAI_BASE_URL",
            default_base_url="https://api.openai.com/v1",
        ),
        Provider(
            name="anthropic",
            title="Anthropic",
            dialects=(Dialect.ANTHROPIC_MESSAGES,),
            key_variable="ANTHROPIC_API_KEY",
            base_url_variable="ANTHROPIC_BASE_URL",
            default_base_url="https://api.anthropic.com",
        ),
        Provider(
            name="google",
            title="Google Gemini",
            dialects=(Dialect.GEMINI,),
            key_variable="GOOGLE_API_KEY",
            base_url_variable="GOOGLE_GEMINI_BASE_URL",
            default_base_url="https://generativelanguage.googleapis.com",
        ),
    )
}
"""By the name that stands before the slash in `provider/model`."""


def dialects_of(ref: ModelRef) -> tuple[Dialect, ...]:
    """The dialects in which a model can be reached."""
    return SCRIPTED_DIALECTS if ref.simulated else PROVIDERS[ref.provider].dialects


def provider_endpoint(
    ref: ModelRef, dialect: Dialect, base_url: str | None, env: Mapping[str, str]
) -> ModelEndpoint:
    """Where a provider's model is reached, with its key.

    Args:
        ref: A model of a provider, not a scripted one.
        dialect: One that the provider speaks.
        base_url: What the user gave as `--base-url`; goes before the provider's variable, which
            goes before the provider's own address.
        env: The environment that holds keys and base URLs.

    Raises:
        NotReady: The key's variable is not set. With a base URL other than the provider's own
            that is no error: the key is then `PLACEHOLDER_KEY`.
        InvalidInput: A scripted model, a dialect the provider does not speak, a base URL that is
            none, or a key with white space in it.
    """
    if ref.simulated:
        raise InvalidInput(f"{ref} is a scripted model: it has an endpoint of its own and takes no base URL")
    provider = PROVIDERS[ref.provider]
    if dialect not in provider.dialects:
        raise InvalidInput(
            f"{provider.name} does not speak {dialect}; it speaks {', '.join(provider.dialects)}"
        )
    url = _base_url(provider, base_url, env)
    return ModelEndpoint(
        dialect=dialect,
        base_url=url,
        model=ref.name,
        api_key=SecretStr(_key(provider, url, env)),
        provider=provider.name,
    )


def is_at_home(ref: ModelRef, base_url: str | None, env: Mapping[str, str]) -> bool:
    """Whether a provider's model is asked at the provider's own address; see `provider_endpoint`."""
    provider = PROVIDERS[ref.provider]
    return _base_url(provider, base_url, env) == provider.default_base_url


def _base_url(provider: Provider, base_url: str | None, env: Mapping[str, str]) -> str:
    if base_url is not None:
        return _checked_url(base_url, "--base-url")
    if from_env := env.get(provider.base_url_variable):
        return _checked_url(from_env, provider.base_url_variable)
    return provider.default_base_url


def _key(provider: Provider, url: str, env: Mapping[str, str]) -> str:
    key = env.get(provider.key_variable, "")
    if not key:
        if url != provider.default_base_url:
            return PLACEHOLDER_KEY
        raise NotReady(
            f"{provider.name} needs a key: set {provider.key_variable}, or name a server that needs none "
            f"with --base-url or {provider.base_url_variable}"
        )
    if any(c.isspace() for c in key):
        # Not shown: it is a secret even when it is malformed.
        raise InvalidInput(f"the key in {provider.key_variable} holds white space")
    return key


def _checked_url(text: str, source: str) -> str:
    try:
        parts = urlsplit(text)
        well_formed = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError as error:
        raise InvalidInput(f"{source}: not a URL: {error}") from error
    if parts.username or parts.password:
        # Not shown: it holds a secret.
        raise InvalidInput(f"{source}: the URL holds a user name or password; give the key by its variable")
    if not well_formed or parts.query or parts.fragment:
        raise InvalidInput(
            f"{source} {text!r}: write http(s)://host[:port][/path], for example http://127.0.0.1:8000/v1"
        )
    return text.rstrip("/")

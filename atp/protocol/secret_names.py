"""Names that say that their value is a secret: of keys, headers, options, variables, parameters.

A name is read as words, however they are joined: `apiKey`, `X-API-Key` and `OPENAI_API_KEY` all end in
*api key*. What counts is the end of a name, so `input_tokens`, `max_tokens`, `token_count` or
`password_policy` are not secrets. Nor are the tokens of a text and those that turn pages.
"""

from __future__ import annotations

import functools
import re

_LONGEST = 100  # characters; what is longer is data that serves as a key
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_WORDS = re.compile(r"[A-Za-z0-9]+")

_KINDS = {
    "apikey": "api-key",
    "accesskey": "api-key",
    "secretkey": "api-key",
    "subscriptionkey": "api-key",
    "authkey": "api-key",
    "privatekey": "private-key",
    "signingkey": "private-key",
    "encryptionkey": "private-key",
    "password": "password",
    "passwd": "password",
    "pwd": "password",
    "passphrase": "password",
    "passcode": "password",
    "secret": "secret",
    "authorization": "authorization",
    "cookie": "cookie",
    "credential": "credentials",
    "accesstoken": "token",
    "authtoken": "token",
    "bearertoken": "token",
    "refreshtoken": "token",
    "sessiontoken": "token",
}
"""The end of a name, its words joined, a plural's s aside -> what the value is."""

_CLOSING = frozenset({"value", "hash", "header", "confirmation"})
"""Words that may follow and change nothing: `password_hash`, `Authorization header`."""

_OTHER_TOKENS = frozenset(
    "page next prev previous continuation sync cursor pagination resume start end stop first last per "
    "eos bos pad unk sep cls mask special image audio video max min new output input prompt completion "
    "time to".split()
)
"""Words before `token` that make it one of a text, or of a list's pages."""

_VARIABLE = re.compile(r"[A-Z0-9_]+_KEY")


@functools.lru_cache(maxsize=8192)
def secret_kind(name: str) -> str | None:
    """What a value of this name is (`password`, `token`, …), or None where it is no secret."""
    if len(name) > _LONGEST:
        return None
    words = [word.lower() for word in _WORDS.findall(_CAMEL.sub("_", name))]
    while words and words[-1] in _CLOSING:
        words.pop()
    if not words:
        return None
    if words[-1] == "token":
        return "token" if len(words) == 1 or words[-2] not in _OTHER_TOKENS else None
    joined = "".join(words)
    for end in (joined, joined.removesuffix("s")):
        for ending, kind in _KINDS.items():
            if end.endswith(ending):
                return kind
    return "api-key" if _VARIABLE.fullmatch(name) else None

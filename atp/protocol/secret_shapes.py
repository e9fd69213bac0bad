"""Secrets that are known by how they look: the keys of providers, and values that stand beside their name.

Every pattern is linear: bounded repeats, nothing nested. A key that a provider has masked (`sk-ab***yz`)
still counts, since what is left of it is a part of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from atp.protocol.secret_names import secret_kind

MARK = "[redacted:"
"""How every replacement begins; `[redacted:openai-key]`."""


def mark(kind: str) -> str:
    """What stands in place of a secret. It says the kind, never the length or a part."""
    return f"{MARK}{kind}]"


_ONE_DIGIT = r"(?=[A-Za-z_-]{0,200}[0-9*])"  # words joined by hyphens have none
_PEM = r"[A-Z0-9 ]{0,40}PRIVATE KEY"
_SHAPES: tuple[tuple[str, str], ...] = (
    ("private-key", rf"-----BEGIN {_PEM}-----[\s\S]*?(?:-----END {_PEM}-----|\Z)"),
    ("scripted-key", r"atp-scripted-[A-Za-z0-9_*-]{8,}"),
    ("anthropic-key", r"(?<![A-Za-z0-9])sk-ant-[A-Za-z0-9_*-]{8,}"),
    ("openai-key", rf"(?<![A-Za-z0-9])sk-{_ONE_DIGIT}[A-Za-z0-9_*-]{{16,}}"),
    ("google-key", r"(?<![A-Za-z0-9])AIza[A-Za-z0-9_*-]{30,}"),
    ("huggingface-token", r"(?<![A-Za-z0-9])hf_[A-Za-z0-9*]{20,}"),
    ("github-token", r"(?<![A-Za-z0-9])(?:gh[pousr]_[A-Za-z0-9*]{20,}|github_pat_[A-Za-z0-9_*]{20,})"),
    ("gitlab-token", r"(?<![A-Za-z0-9])glpat-[A-Za-z0-9_*-]{20,}"),
    ("aws-key", r"(?<![A-Za-z0-9+/])(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9+/])"),
    ("slack-token", r"(?<![A-Za-z0-9])(?:xox[abeoprs]|xapp)-[A-Za-z0-9*-]{10,}"),
    ("stripe-key", r"(?<![A-Za-z0-9])[rs]k_(?:live|test)_[A-Za-z0-9*]{16,}"),
    ("groq-key", r"(?<![A-Za-z0-9])gsk_[A-Za-z0-9*]{20,}"),
    ("xai-key", r"(?<![A-Za-z0-9])xai-[A-Za-z0-9*]{20,}"),
    ("jwt", r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]*"),
)  # fmt: skip

_PATTERNS = [(mark(kind), re.compile(pattern)) for kind, pattern in _SHAPES]
_BEARER = re.compile(r"(?i)\b(bearer\s{1,4})(?=[A-Za-z._~+/=-]{0,200}[0-9*])[A-Za-z0-9._~+/=*-]{12,}")
_URL = re.compile(r"(://)[^/\s:@\"'\\]{0,256}:[^/\s@\"'\\]{1,256}(?=@)")

_NAME = (
    r"(?i:api[_-]?keys?|access[_-]?key|secret[_-]?key|private[_-]?key|passw(?:or)?d|passphrase|passcode"
    r"|pwd|secret|token|cookie|authorization|credentials?)|[A-Z0-9]_KEY"
)
_QUOTED = re.compile(
    rf"(?:{_NAME})(?:\\{{0,4}}[\"'])?\s{{0,4}}[:=]\s{{0,4}}"
    r"(?:\"(?P<double>(?:[^\"\\]|\\.){4,4096})|'(?P<single>(?:[^'\\]|\\.){4,4096})"
    r"|\\{1,4}[\"'](?P<escaped>[^\"'\\]{4,4096}))"
)
_BARE = re.compile(
    rf"(?:{_NAME})(?:=|:\s{{0,4}})(?=[^\s\"'&,;(){{}}\[\]\\<>0-9]{{0,200}}[0-9])"
    r"(?P<bare>[^\s\"'&,;(){}\[\]\\<>]{8,})"
)
_HEADER = re.compile(
    r"(?i:(?:authorization|cookie)):[ \t]{0,4}(?i:(?:bearer|basic|token|digest)[ \t]{1,4})?"
    r"(?P<header>(?=[^\r\n\"']{0,200}[0-9=])[^\r\n\"']{6,})"
)
_NAMED = (_HEADER, _QUOTED, _BARE)
_IN_NAMES = re.compile(r"[A-Za-z0-9_.-]{0,60}\Z")


def without_shapes(text: str) -> str:
    """The text without what looks like a secret, or stands beside a name that says so."""
    for replacement, pattern in _PATTERNS:
        text = pattern.sub(replacement, text)
    text = _BEARER.sub(lambda found: found[1] + mark("bearer"), text)
    text = _URL.sub(lambda found: found[1] + mark("url-credentials"), text)
    for pattern in _NAMED:
        text = pattern.sub(_replace_value(text), text)
    return text


def _replace_value(text: str) -> Callable[[re.Match[str]], str]:
    def replace(found: re.Match[str]) -> str:
        group = found.lastgroup
        assert group is not None  # every alternative has its group
        begin = found.start(group)
        if text.startswith(MARK, begin):
            return found[0]
        # The pattern finds where a name ends; whether it is one that says secret, all of it decides.
        before = _IN_NAMES.search(text, max(found.start() - 60, 0), found.start())
        head = found[0][: begin - found.start()]
        name = (before[0] if before else "") + re.split(r"[\\\"':=\s]", head, maxsplit=1)[0]
        kind = secret_kind(name)
        return found[0] if kind is None else head + mark(kind)

    return replace

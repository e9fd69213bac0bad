"""Secrets that are known by how they look: the keys of providers, and values that stand beside their name.

Every pattern is linear: bounded repeats, nothing nested. A key that a provider has masked (`sk-ab***yz`)
still counts, since what is left of it is a part of it.
"""

from __future__ import annotations

import re

from atp.protocol.secret_names import secret_kind

MARK = "[redacted:"
"""How every replacement begins; `[redacted:openai-key]`."""


def mark(kind: str) -> str:
    """What stands in place of a secret. It says the kind, never the length or a part."""
    return f"{MARK}{kind}]"


_PEM = r"[A-Z0-9 ]{0,40}PRIVATE KEY"
_ONE_DIGIT = r"(?=[A-Za-z_-]{0,200}[0-9*])"  # words joined by hyphens have none
# A kind, the letters it begins with, and the rest. Beginning with letters makes a search ten times as fast,
# so what must not stand before them is looked at after them.
_SHAPES: tuple[tuple[str, str, str], ...] = (
    ("private-key", "-----BEGIN ", rf"{_PEM}-----[\s\S]*?(?:-----END {_PEM}-----|\Z)"),
    ("scripted-key", "atp-scripted-", r"[A-Za-z0-9_*-]{8,}"),
    ("anthropic-key", "sk-ant-", r"[A-Za-z0-9_*-]{8,}"),
    ("openai-key", "sk-", rf"{_ONE_DIGIT}[A-Za-z0-9_*-]{{12,}}"),
    ("google-key", "AIza", r"[A-Za-z0-9_*-]{30,}"),
    ("huggingface-token", "hf_", r"[A-Za-z0-9*]{20,}"),
    ("github-token", "gh", r"[pousr]_[A-Za-z0-9*]{20,}"),
    ("github-token", "github_pat_", r"[A-Za-z0-9_*]{20,}"),
    ("gitlab-token", "glpat-", r"[A-Za-z0-9_*-]{20,}"),
    ("aws-key", "AKIA", r"[A-Z0-9]{16}(?![A-Za-z0-9+/])"),
    ("aws-key", "ASIA", r"[A-Z0-9]{16}(?![A-Za-z0-9+/])"),
    ("slack-token", "xox", r"[abeoprs]-[A-Za-z0-9*-]{10,}"),
    ("slack-token", "xapp-", r"[A-Za-z0-9*-]{10,}"),
    ("stripe-key", "sk_", r"(?:live|test)_[A-Za-z0-9*]{16,}"),
    ("stripe-key", "rk_", r"(?:live|test)_[A-Za-z0-9*]{16,}"),
    ("groq-key", "gsk_", r"[A-Za-z0-9*]{20,}"),
    ("xai-key", "xai-", r"[A-Za-z0-9*]{20,}"),
    ("jwt", "eyJ", r"[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]*"),
)

_PATTERNS = [
    (mark(kind), re.compile(rf"{re.escape(begin)}(?<![A-Za-z0-9]{re.escape(begin)}){rest}"))
    for kind, begin, rest in _SHAPES
]
_BEARER = re.compile(
    r"earer\s{1,4}(?<=[Bb]earer.)(?=[A-Za-z._~+/=-]{0,200}[0-9*])(?P<bearer>[A-Za-z0-9._~+/=*-]{12,})"
)
_URL = re.compile(r"://[^/\s:@\"'\\]{0,256}:[^/\s@\"'\\]{1,256}(?=@)")

_QUOTED = (
    r"(?:\\{0,4}[\"'])?\s{0,4}[:=]\s{0,4}"
    r"(?:\"(?P<double>(?:[^\"\\]|\\.){4,4096})|'(?P<single>(?:[^'\\]|\\.){4,4096})"
    r"|\\{1,4}[\"'](?P<escaped>[^\"'\\]{4,4096}))"
)
_BARE = r"(?:=|:\s{0,4})(?=[^\s\"'&,;(){}\[\]\\<>0-9]{0,200}[0-9])(?P<bare>[^\s\"'&,;(){}\[\]\\<>]{8,})"
_HEADER = (
    r":[ \t]{0,4}(?i:(?:bearer|basic|token|digest)[ \t]{1,4})?"
    r"(?=[^\r\n\"']{0,200}[0-9=])(?P<header>[^\r\n\"']{6,})"
)
_ENDINGS = ("ey", "oken", "ecret", "assword", "asswd", "pwd", "ssphrase", "sscode", "redential")
_HEADER_ENDINGS = ("ookie", "orization")
"""How names that say secret end, their first letter aside, which may be a capital."""
_NAMED = [
    re.compile(f"{form}[sS]?(?:{values})")
    for endings, values in (
        (_ENDINGS, f"{_QUOTED}|{_BARE}"),
        (_HEADER_ENDINGS, f"{_HEADER}|{_QUOTED}|{_BARE}"),
    )
    for ending in endings
    for form in (ending, ending.upper())
]
_BEFORE = re.compile(r"[A-Za-z0-9_.-]{0,60}\Z")
_AFTER = re.compile(r"[\\\"':=\s]")


def without_shapes(text: str) -> str:
    """The text without what looks like a secret, or stands beside a name that says so."""
    for replacement, pattern in _PATTERNS:
        text = pattern.sub(replacement, text)
    text = _BEARER.sub(lambda found: _with(found, "bearer", mark("bearer")), text)
    text = _URL.sub("://" + mark("url-credentials"), text)
    for pattern in _NAMED:
        text = pattern.sub(_replace_value, text)
    return text


def _replace_value(found: re.Match[str]) -> str:
    group = found.lastgroup
    assert group is not None  # every alternative has its group
    if found[group].startswith(MARK):
        return found[0]
    # The pattern finds where a name ends; whether it is one that says secret, all of it decides.
    before = _BEFORE.search(found.string, max(found.start() - 60, 0), found.start())
    kind = secret_kind((before[0] if before else "") + _AFTER.split(found[0], maxsplit=1)[0])
    return found[0] if kind is None else _with(found, group, mark(kind))


def _with(found: re.Match[str], group: str, replacement: str) -> str:
    return found[0][: found.start(group) - found.start()] + replacement

"""Redaction: the one place that decides what is a secret.

By name (`atp.protocol.secret_names`), by shape (`atp.protocol.secret_shapes`), and by value: what the
secret variables of this process hold. It is asked wherever something is stored, logged or shown; what
model and tools exchange is never changed. `docs/secrets.md` says what is found and what is not.

Nearly all text holds nothing, so the first question is a cheap one, `suspects`: searches that leap from one
rare letter to the next (`perf/redaction.py` measures them). Standard library only: the filter of a
worker's log needs nothing else.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any

from atp.protocol.secret_names import secret_kind
from atp.protocol.secret_shapes import MARK, mark, without_shapes

SHORTEST = 8
"""Characters; a shorter value is not looked for: it would be found where it is none."""

_NAMES = (
    b"key", b"token", b"secret", b"passw", b"passph", b"passc", b"pwd", b"authorization", b"cookie",
    b"credential",
)  # fmt: skip
_NAMED = rb"[a-z_ -]{0,14}\\{0,4}[\"']?\s{0,4}[:=]"
_BEGINNINGS = (
    b"bearer", b"-----begin", b"atp-scripted-", b"sk-", b"aiza", b"hf_", b"ghp_", b"gho_", b"ghu_", b"ghs_",
    b"ghr_", b"github_pat_", b"glpat-", b"akia", b"xox", b"xapp-", b"k_live_", b"k_test_", b"gsk_", b"xai-",
    b"eyj",
)  # fmt: skip
"""In lower case, one of these, or a name with what comes between it and its value, is in whatever holds a
secret by name or shape; `_CAPITALS` and URLs aside."""
_CAPITALS = b"ASIA"  # too common in lower case
_RAREST_FIRST = b"zjqx@_-kvbwyfgpmucdlhrsnioate"
_SCHEMA_WORDS = frozenset({"type", "$ref", "anyOf", "oneOf", "allOf", "enum", "properties", "description"})
_NUMBERS_TOO = frozenset({"password", "secret"})
_ONE_MARK = re.compile(re.escape(MARK) + r"[^\]]*\]")
_URL_PASSWORD = re.compile(r"://[^/\s:@]*:([^/\s@]+)@")


def _anchored(hints: Iterable[tuple[bytes, bytes]]) -> list[re.Pattern[bytes]]:
    """One pattern for each anchor: the rarest letter of a hint, which the search can leap to."""
    by_anchor: dict[int, list[tuple[bytes, bytes]]] = {}
    for hint, rest in hints:
        at = min(range(len(hint)), key=lambda i: _RAREST_FIRST.find(hint[i : i + 1]))
        around = b"(?<=" + re.escape(hint[: at + 1]) + b")" + re.escape(hint[at + 1 :]) + rest
        by_anchor.setdefault(hint[at], []).append((hint[max(at - 1, 0) : at], around))
    patterns = []
    for anchor, found in by_anchor.items():
        letter = re.escape(bytes([anchor]))
        before = b"".join(sorted({b for b, _ in found}))
        # Where every hint has a letter before, to look at that one first is to be done with most places.
        first = b"(?<=[" + re.escape(before) + b"]" + letter + b")" if all(b for b, _ in found) else b""
        patterns.append(re.compile(letter + first + b"(?:" + b"|".join(a for _, a in found) + b")"))
    return patterns


_ANCHORED = _anchored([*((name, _NAMED) for name in _NAMES), *((begin, b"") for begin in _BEGINNINGS)])
_REMEMBERED = 4096
_SHORT = 64


class Redactor:
    """Finds secrets and puts `[redacted:KIND]` in their place.

    Args:
        known: What a secret is called -> its value; see `learn`.
    """

    def __init__(self, known: Mapping[str, str] | None = None) -> None:
        self.known: dict[str, str] = {}
        """Value -> name of every secret that is found by its value."""
        self._values: tuple[tuple[str, str], ...] = ()
        self._needles: tuple[bytes, ...] = ()
        self._clean: set[str] = set()
        for name, value in (known or {}).items():
            self.learn(name, value)

    @classmethod
    def of_environment(cls, environ: Mapping[str, str] = os.environ) -> Redactor:
        """One that knows the secrets among these variables."""
        redactor = cls()
        redactor.learn_all(environ)
        return redactor

    def learn_all(self, named: Mapping[str, str]) -> None:
        """Learn the values whose names say that they are secret, and the passwords within URLs."""
        for name, value in named.items():
            if secret_kind(name) is not None and not (value.startswith("/") and os.path.exists(value)):
                self.learn(name, value)
            elif found := _URL_PASSWORD.search(value):
                self.learn(name, found[1])

    def learn(self, name: str, value: str) -> None:
        """Look for this value from now on, if it has `SHORTEST` characters or more.

        Args:
            name: What stands in its place: `[redacted:NAME]`.
            value: As it is; text in which JSON has escaped it is found as well.
        """
        if len(value) < SHORTEST or value in self.known:
            return
        self.known[value] = name
        self._values = tuple(
            sorted(
                {
                    (form, name)
                    for value, name in self.known.items()
                    for form in (value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1])
                },
                key=lambda pair: (-len(pair[0]), pair),
            )
        )
        self._clean.clear()
        self._needles = tuple(form.encode("utf-8", "surrogatepass") for form, _ in self._values)

    def suspects(self, content: bytes) -> bool:
        """Whether it is worth a closer look: false for nearly all that holds no secret."""
        for needle in self._needles:
            if needle in content:
                return True
        lowered = content.lower()
        for pattern in _ANCHORED:
            if pattern.search(lowered):
                return True
        return _CAPITALS in content or (b"@" in content and b"://" in content)

    def suspects_any(self, attributes: Mapping[str, Any], *texts: str | None) -> bool:
        """As `suspects`, of an object of scalars and lists of text, and of texts beside it."""
        parts = [text for text in texts if text is not None and text not in self._clean]
        for name, item in attributes.items():
            if isinstance(item, str):
                if item not in self._clean:
                    parts.append(item)
            elif isinstance(item, (list, tuple)):
                parts.extend(item)
            if secret_kind(name) is not None:
                return True
        if not parts:
            return False
        if self.suspects("\n".join(parts).encode("utf-8", "surrogatepass")):
            return True
        # Most of what spans say they say again: names of models and tools, ids of a turn before.
        if len(self._clean) > _REMEMBERED:
            self._clean.clear()
        self._clean.update(part for part in parts if len(part) <= _SHORT)
        return False

    def text(self, text: str) -> str:
        """The text without its secrets; the same object where there are none."""
        if len(text) < SHORTEST or not self.suspects(text.encode("utf-8", "surrogatepass")):
            return text
        clean = text
        for value, name in self._values:
            if value in clean:
                clean = clean.replace(value, mark(name))
        clean = without_shapes(clean)
        return text if clean == text else clean

    def value(self, value: Any, *, by_name: bool = True) -> Any:
        """A JSON value without its secrets; the same object where there are none.

        Args:
            value: What is nested too deeply to be looked through goes as a whole.
            by_name: Whether the keys of objects are names, not data.
        """
        try:
            return self._value(value, by_name)
        except RecursionError:
            return mark("nesting")

    def _value(self, value: Any, by_name: bool) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return self._object(value, by_name)
        if isinstance(value, (list, tuple)):
            return _changed(value, [self._value(item, by_name) for item in value])
        return value

    def _object(self, value: Mapping[Any, Any], by_name: bool) -> Any:
        clean: dict[Any, Any] = {}
        changed = False
        for key, item in value.items():
            kind = secret_kind(key) if by_name and isinstance(key, str) else None
            if kind is None or (key == "token" and "logprob" in value):  # a word and how likely it was
                new = self._value(item, by_name)
            else:
                new = self._named(kind, item)
            name = self.text(key) if isinstance(key, str) else key
            changed = changed or new is not item or name is not key
            clean[name] = new
        return clean if changed else value

    def _named(self, kind: str, value: Any) -> Any:
        """A value whose name says that it is a secret. An object that describes one is not one."""
        if isinstance(value, str):
            exact = self.text(value)  # by value or shape it may be known more exactly
            return exact if not value or _ONE_MARK.fullmatch(exact) else mark(kind)
        if isinstance(value, bool) or value is None:
            return value
        if isinstance(value, (int, float)):
            return mark(kind) if kind in _NUMBERS_TOO else value
        if isinstance(value, Mapping):
            if _SCHEMA_WORDS & value.keys():
                return self._value(value, by_name=True)
            clean_items = {key: self._named(kind, item) for key, item in value.items()}
            return clean_items if any(clean_items[key] is not value[key] for key in value) else value
        if isinstance(value, (list, tuple)):
            return _changed(value, [self._named(kind, item) for item in value])
        return value


def _changed(value: Any, clean: list[Any]) -> Any:
    """The clean items, or the value itself where they are its own."""
    return clean if any(a is not b for a, b in zip(clean, value, strict=True)) else value

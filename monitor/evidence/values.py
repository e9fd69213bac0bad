"""Values as evidence holds them: within bounds, in types that have a canonical form (RFC 8785).

What is cut says so where it was cut, and its event says so too: nothing is lost in silence.

    a text beyond `LONGEST_TEXT` characters    its beginning and `\\n[truncated]`
    below `DEEPEST_VALUE` levels               `[truncated:depth]`
    a list beyond the room of its value        its beginning and `[truncated:N items]`
    an object beyond it                        its beginning and a key `[truncated]`: `N items`
    an integer that no double holds            its decimal text
    NaN, infinities                            `NaN`, `Infinity`, `-Infinity`
    half of a surrogate pair                   U+FFFD
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from atp.protocol.evidence import LONGEST_TEXT
from atp.protocol.unicode_text import well_formed

ROOM = 128 * 1024
"""Characters of one value: arguments, or a result. As JSON they are six bytes at most."""
DEEPEST_VALUE = 32
"""Levels of a value, its own being the first."""
CUT = "\n[truncated]"

_LARGEST_INTEGER = 2**53 - 1
_LONGEST_INTEGER = 4096  # bits; Python does not write more than some thousand digits


@dataclass(slots=True)
class Bounds:
    """Fits the values of one event, and knows which of them are not whole."""

    cut: list[str] = field(default_factory=list)
    """Names of the values that were cut."""
    altered: list[str] = field(default_factory=list)
    """Names of the values that hold something in another form."""

    def text(self, name: str, text: str, longest: int = LONGEST_TEXT) -> str:
        """A text within its bound."""
        formed = well_formed(text)
        if formed != text:
            self._note(self.altered, name)
        if len(formed) <= longest:
            return formed
        self._note(self.cut, name)
        return formed[: longest - len(CUT)] + CUT

    def value(self, name: str, value: Any) -> Any:
        """A JSON value within its bounds."""
        fitting = _Fitting()
        fitted = fitting.fit(value, 1)
        if fitting.cut:
            self._note(self.cut, name)
        if fitting.altered:
            self._note(self.altered, name)
        return fitted

    def attributes(self) -> dict[str, Any]:
        """What an event says of its values that are not whole."""
        return {
            name: sorted(names)
            for name, names in (("truncated", self.cut), ("altered", self.altered))
            if names
        }

    @staticmethod
    def _note(names: list[str], name: str) -> None:
        if name not in names:
            names.append(name)


@dataclass(slots=True)
class _Fitting:
    left: int = ROOM
    cut: bool = False
    altered: bool = False

    def fit(self, value: Any, level: int) -> Any:
        if isinstance(value, str):
            return self._text(value)
        self.left -= 8
        if isinstance(value, list | tuple | dict):
            if level > DEEPEST_VALUE:
                self.cut = True
                return "[truncated:depth]"
            return self._object(value, level) if isinstance(value, dict) else self._list(value, level)
        return self._number(value)

    def _text(self, text: str) -> str:
        longest = max(min(LONGEST_TEXT, self.left), len(CUT))
        formed = well_formed(text)
        self.altered = self.altered or formed != text
        if len(formed) > longest:
            self.cut = True
            formed = formed[: longest - len(CUT)] + CUT
        self.left -= len(formed) + 3
        return formed

    def _list(self, items: list[Any] | tuple[Any, ...], level: int) -> list[Any]:
        fitted: list[Any] = []
        for item in items:
            if self.left <= 0:
                self.cut = True
                fitted.append(f"[truncated:{len(items) - len(fitted)} items]")
                break
            fitted.append(self.fit(item, level + 1))
        return fitted

    def _object(self, value: dict[str, Any], level: int) -> dict[str, Any]:
        fitted: dict[str, Any] = {}
        for seen, (key, item) in enumerate(value.items()):
            name = self._text(key)
            if self.left <= 0 or name in fitted:  # the second: keys that differ in what was cut from them
                self.cut = True
                fitted["[truncated]"] = f"{len(value) - seen} items"
                break
            fitted[name] = self.fit(item, level + 1)
        return fitted

    def _number(self, value: Any) -> Any:
        if isinstance(value, bool) or value is None:
            return value
        if isinstance(value, int):
            if abs(value) <= _LARGEST_INTEGER:
                return value
            self.altered = True
            return str(value) if value.bit_length() <= _LONGEST_INTEGER else f"{value.bit_length()} bits"
        if math.isfinite(value):
            return value
        self.altered = True
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"

"""Plain data as text, between the test and the solution. Its text also runs inside the boxes.

What crosses: None, bool, int, float, complex, str, bytes, list, tuple, dict, set, frozenset, Decimal
and Fraction. A subclass of one of them crosses as that one. Anything else becomes an `Opaque`,
which is equal to nothing.

A value is a row of words: a letter for the type, then text in hexadecimal, a number, or how many
values follow that belong to it. Reading one can make nothing but data.
"""

from __future__ import annotations

import itertools
import sys

# The name alone is what type checkers go by; importing `typing` would take 20 ms in the box.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

MAX_ITEMS = 10_000
"""Items taken from an iterator that was returned."""


class Opaque:
    """Something that is no plain data: has a truth value and perhaps items, and equals nothing."""

    def __init__(self, kind: str, truth: bool | None, items: list[Any] | None) -> None:
        self.kind = kind
        self.truth = truth
        self.items = items

    def __eq__(self, other: object) -> bool:
        return False

    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        if self.truth is None:
            raise TypeError(f"{self.kind} object has no truth value")
        return self.truth

    def __iter__(self) -> Iterator[Any]:
        if self.items is None:
            raise TypeError(f"{self.kind!r} object is not iterable")
        return iter(self.items)

    def __repr__(self) -> str:
        return f"<{self.kind} object>"


def dumps(value: Any) -> bytes:
    """The value as one line of text."""
    words: list[str] = []
    try:
        _write(value, words)
    except RecursionError:
        words = ["oe-", _text("deeply nested")]
    return " ".join(words).encode("ascii")


def loads(line: bytes) -> Any:
    """The value that `dumps` wrote.

    Raises:
        ValueError: The line is no such value.
    """
    words = iter(line.decode("ascii").split())
    try:
        value = _read(words)
    except StopIteration:
        raise ValueError("not a value: it is cut short") from None
    except (LookupError, TypeError, RecursionError, ArithmeticError) as error:
        raise ValueError(f"not a value: {type(error).__name__}") from error
    if next(words, None) is not None:
        raise ValueError("not a value: more follows")
    return value


def _write(value: Any, words: list[str]) -> None:
    for kind, word in _WORDS:
        if isinstance(value, kind):
            words.append(word(value))
            return
    if isinstance(value, dict):
        words.append(f"d{dict.__len__(value)}")
        for pair in dict.items(value):
            _write(pair[0], words)
            _write(pair[1], words)
        return
    for letter, container in _CONTAINERS.items():
        if isinstance(value, container):
            words.append(f"{letter}{container.__len__(value)}")
            for item in container.__iter__(value):
                _write(item, words)
            return
    _write_other(value, words)


def _write_other(value: Any, words: list[str]) -> None:
    for letter, module, name in (("D", "decimal", "Decimal"), ("R", "fractions", "Fraction")):
        if module in sys.modules and isinstance(value, getattr(sys.modules[module], name)):
            words.append(letter + str(value).encode().hex())
            return
    # The value's own methods run here, on its own side of the wall; whatever they raise means no.
    try:
        truth = "t" if value else "f"
    except Exception:
        truth = "e"
    try:
        items = list(itertools.islice(iter(value), MAX_ITEMS + 1))
    except Exception:
        items = None
    has_items = items is not None and len(items) <= MAX_ITEMS
    words += ["o" + truth + ("+" if has_items else "-"), _text(type(value).__name__)]
    if has_items:
        _write(items, words)


def _text(text: str) -> str:
    return "s" + text.encode("utf-8", "surrogatepass").hex()


def _read(words: Iterator[str]) -> Any:
    word = next(words)
    letter, rest = word[0], word[1:]
    if letter in _SCALARS:
        return _SCALARS[letter](rest)
    if letter in _CONTAINERS:
        return _CONTAINERS[letter]([_read(words) for _ in _count(rest)])
    if letter == "d":
        return {_read(words): _read(words) for _ in _count(rest)}
    if letter == "c":
        return complex(float.fromhex(next(words)), float.fromhex(next(words)))
    if letter == "o":
        return Opaque(str(_read(words)), _TRUTHS[rest[0]], _read(words) if rest[1] == "+" else None)
    raise ValueError(f"not a value: {word[:20]!r}")


def _count(text: str) -> Iterator[int]:
    yield from range(int(text))


def _decimal(text: str) -> Any:
    from decimal import Decimal

    return Decimal(bytes.fromhex(text).decode())


def _fraction(text: str) -> Any:
    from fractions import Fraction

    return Fraction(bytes.fromhex(text).decode())


_WORDS: tuple[tuple[Any, Any], ...] = (
    (type(None), lambda _: "n"),
    (bool, lambda value: "b1" if value else "b0"),
    (int, lambda value: "i" + hex(int.__index__(value))),
    (float, lambda value: "f" + float.hex(float.__float__(value))),
    (complex, lambda value: f"c {float.hex(value.real)} {float.hex(value.imag)}"),
    (str, lambda value: _text(str.__str__(value))),
    ((bytes, bytearray), lambda value: "y" + bytes(value).hex()),
)
"""Type -> its words; `bool` before `int`, which it is a subclass of."""
_TRUTHS = {"t": True, "f": False, "e": None}
_CONTAINERS: dict[str, Any] = {"l": list, "t": tuple, "S": set, "F": frozenset}
_SCALARS: dict[str, Any] = {
    "n": lambda _: None,
    "b": {"0": False, "1": True}.__getitem__,
    "i": lambda text: int(text, 16),
    "f": float.fromhex,
    "s": lambda text: bytes.fromhex(text).decode("utf-8", "surrogatepass"),
    "y": bytes.fromhex,
    "D": _decimal,
    "R": _fraction,
}

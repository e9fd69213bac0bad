"""Values as they are stored: bodies as JSON bytes named by their digest, attributes as scalars.

Everything has a stored form. What JSON or the store cannot hold exactly gets a stated one, and the
caller is told how many values that touched:

    NaN, infinities           "NaN", "Infinity", "-Infinity"
    lone surrogates           U+FFFD
    bytes                     {"base64": "…"}; in an attribute the base64 text
    sets                      lists, ordered by their JSON text
    Enum                      its value
    Decimal, date, UUID, …    str()
    objects                   what `model_dump` or the dataclass fields give, else repr()
    a container in itself     "<type within itself>"; below 200 levels, the name of its type
    keys of an object         str()
    integers of an attribute  beyond 64 bits, their decimal text (bodies hold them exactly)
    NUL in an attribute       U+2400, since PostgreSQL cannot store it (bodies escape it)
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import math
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import PurePath
from typing import Any
from uuid import UUID

from atp.protocol.spans import AttributeValue
from atp.protocol.unicode_text import well_formed

_STR_FORMS = (Decimal, Fraction, UUID, PurePath, datetime, date, time)
_MAX_DEPTH = 200
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def body(value: Any) -> tuple[str, bytes, int]:
    """Store form of a JSON value.

    Returns:
        SHA-256 in hexadecimal, the JSON as UTF-8 without blanks (keys keep their order, since
        the order in which a model wrote arguments says something), and how many values were
        given a stated form.
    """
    altered = 0
    try:
        content = _ENCODER.encode(value).encode("utf-8")
    except (TypeError, ValueError, RecursionError):
        # Not JSON as it is: other types, NaN, a lone surrogate, a circle.
        value, altered = plain(value)
        content = _ENCODER.encode(value).encode("utf-8")
    return hashlib.sha256(content).hexdigest(), content, altered


def plain(value: Any) -> tuple[Any, int]:
    """The value in JSON types only, and how many of its values were given a stated form."""
    counter = _Altered()
    return _plain(value, counter), counter.count


def attribute(value: Any) -> tuple[AttributeValue, int]:
    """Store form of an attribute, and how many values were given a stated form."""
    if value is None or value is True or value is False:
        return value, 0
    kind = type(value)
    if kind is str:
        return _attribute_text(value)
    if kind is int:
        return (value, 0) if -(1 << 63) <= value < (1 << 63) else (str(value), 1)
    if kind is float:
        return (value, 0) if math.isfinite(value) else (_float_text(value), 1)
    if isinstance(value, (list, tuple)):
        texts = [_attribute_text(item if isinstance(item, str) else _text(item)) for item in value]
        others = sum(not isinstance(item, str) for item in value)
        return [text for text, _ in texts], others + sum(altered for _, altered in texts)
    if isinstance(value, Enum):
        return attribute(value.value)
    if isinstance(value, str):
        return _attribute_text(str.__str__(value))
    return _attribute_text(_text(value))[0], 1


class _Altered:
    """Counts, and knows the containers it is inside of, to notice circles."""

    __slots__ = ("count", "inside")

    def __init__(self) -> None:
        self.count = 0
        self.inside: set[int] = set()


def _plain(value: Any, altered: _Altered) -> Any:
    if value is None or value is True or value is False or type(value) is int:
        return value
    if type(value) is str:
        return _well_formed(value, altered)
    if type(value) is float:
        if math.isfinite(value):
            return value
        altered.count += 1
        return _float_text(value)
    if isinstance(value, Enum):
        return _plain(value.value, altered)
    if id(value) in altered.inside or len(altered.inside) > _MAX_DEPTH:
        altered.count += 1
        return f"<{type(value).__name__} within itself>" if id(value) in altered.inside else repr(type(value))
    altered.inside.add(id(value))
    try:
        if isinstance(value, Mapping):
            return {
                _well_formed(key if isinstance(key, str) else str(key), altered): _plain(item, altered)
                for key, item in value.items()
            }
        if isinstance(value, (list, tuple)):
            return [_plain(item, altered) for item in value]
        return _plain_other(value, altered)
    finally:
        altered.inside.discard(id(value))


def _plain_other(value: Any, altered: _Altered) -> Any:
    altered.count += 1
    if isinstance(value, (bytes, bytearray, memoryview)):
        return {"base64": base64.b64encode(bytes(value)).decode("ascii")}
    if isinstance(value, AbstractSet):
        return sorted((_plain(item, altered) for item in value), key=_ENCODER.encode)
    if isinstance(value, str):
        return _well_formed(str.__str__(value), altered)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return _plain(float(value), altered)
    if isinstance(value, _STR_FORMS):
        return _well_formed(str(value), altered)
    dump = getattr(value, "model_dump", None)
    if callable(dump) and not isinstance(value, type):
        return _plain(dump(), altered)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return _plain(fields, altered)
    return _well_formed(repr(value), altered)


def _well_formed(text: str, altered: _Altered) -> str:
    formed = well_formed(text)
    altered.count += formed is not text
    return formed


def _float_text(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _attribute_text(text: str) -> tuple[str, int]:
    if text.isascii() and "\x00" not in text:
        return text, 0
    altered = _Altered()
    formed = _well_formed(text, altered)
    if "\x00" in formed:
        altered.count += 1
        formed = formed.replace("\x00", "\u2400")
    return formed, altered.count


def _text(value: Any) -> str:
    """A value that is no scalar as text: JSON for structures, else its plain form."""
    form, _ = plain(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return str(form["base64"])
    if isinstance(form, str):
        return form
    return _ENCODER.encode(form)

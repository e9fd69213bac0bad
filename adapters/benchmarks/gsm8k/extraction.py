"""The two published ways to find the number in an answer, and to compare it.

As task `gsm8k` 3.0 of lm-evaluation-harness has them (`tasks/gsm8k/gsm8k.yaml`, `filters/extraction.py`,
`exact_match` of `api/metrics.py`). The strict one is that of the data set's authors
(`grade_school_math/dataset.py`). Both are kept to the letter where they are odd: of several `####` the
first counts, of several numbers the last, and digits are ASCII.
"""

from __future__ import annotations

import re

_STRICT = re.compile(r"#### (-?[0-9.,]+)")
_FLEXIBLE = re.compile(r"-?[$0-9.,]{2,}|-?[0-9]+")
_IGNORED = (re.compile(","), re.compile(r"\$"), re.compile(r"(?s).*#### "), re.compile(r"\.$"))
"""Removed before a comparison, in this order."""


def strict(answer: str) -> str | None:
    """What follows the first `#### `; None where there is none."""
    found = _STRICT.search(answer)
    return None if found is None else found[1]


def flexible(answer: str) -> str | None:
    """The last run of two or more of `$0-9.,`, or single digit; None where there is none."""
    found = _FLEXIBLE.findall(answer)
    return found[-1] if found else None


def same(extracted: str | None, gold: str) -> bool:
    """Whether an extracted number is the gold answer's.

    Args:
        extracted: As `strict` or `flexible` gives it.
        gold: The whole gold answer, whose last `#### ` goes before its number.
    """
    return extracted is not None and normal(extracted) == normal(gold)


def normal(text: str) -> str:
    """As it is compared: no comma or dollar sign, nothing up to the last `#### `, no full stop at the end."""
    for ignored in _IGNORED:
        text = ignored.sub("", text)
    return text.lower()

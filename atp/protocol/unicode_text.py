"""Text that has a UTF-8 form."""

from __future__ import annotations


def well_formed(text: str) -> str:
    """The same text where it has a UTF-8 form, else with U+FFFD for what has none.

    A string of Python or JSON may hold half of a surrogate pair. No model API takes one, and neither
    does a database or a terminal. Two halves that follow each other are the character they stand for.
    """
    if text.isascii():
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text

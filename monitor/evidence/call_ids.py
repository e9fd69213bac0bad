"""What calls are named in a document: each once, whatever ids a provider gives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from atp.protocol.unicode_text import well_formed

_LONGEST = 256


class CallIds:
    """Names calls: the provider's id where it is the only one of its kind in the run, the same with the
    span's id behind it where it is not, else the span's id. Names are given in the order of asking.

    Args:
        provided: The provider's ids of all calls of the run.
    """

    def __init__(self, provided: Iterable[str | None]) -> None:
        self._counts = Counter(well_formed(each) for each in provided if each)
        self._given: set[str] = set()

    def name(self, provided: str | None, own: str) -> tuple[str, str]:
        """The name of a call, and where it is from: `provider` or `span_id`.

        Args:
            provided: The provider's id, if there is one.
            own: An id of the call that no other call of the run has.
        """
        forms = [(own, "span_id")]
        if provided:
            formed = well_formed(provided)
            unique = self._counts[formed] == 1
            forms.insert(0, (formed if unique else f"{formed}#{own}", "provider"))
        # A provider may give an id that looks like one made here.
        forms.extend((f"{own}#{number}", "span_id") for number in range(len(self._given) + 1))
        name, source = next(form for form in forms if len(form[0]) <= _LONGEST and form[0] not in self._given)
        self._given.add(name)
        return name, source

"""The options of google-adk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from atp.protocol.errors import InvalidInput
from atp.protocol.harness_options import flag, refuse_unknown

STREAM, DIALECT, RETRIES = "stream", "dialect", "retries"

DESCRIBED: Mapping[str, str] = {
    DIALECT: "gemini (default), openai-chat or openai-responses: the API to ask the model through",
    RETRIES: "how often the client of the model's API asks again; default: as ADK has it, see `retries`",
    STREAM: "true: `StreamingMode.SSE`; default false",
}


@dataclass(frozen=True, slots=True)
class Options:
    """What was asked for. The dialect is the engine's to choose."""

    stream: bool = False
    retries: int | None = None
    """None leaves it to ADK."""

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Options:
        """Read them.

        Raises:
            InvalidInput: There is no such option, or not with this value.
        """
        refuse_unknown("google-adk", options, DESCRIBED)
        stream = flag(options, STREAM) or False
        retries = options.get(RETRIES)
        if retries is not None and not str(retries).isdecimal():
            raise InvalidInput(f"harness.{RETRIES} is a number, not {retries!r}")
        return cls(stream, None if retries is None else int(retries))

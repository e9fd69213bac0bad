"""A model by name: `provider/model`, or one of the scripted models."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from atp.models.providers import PROVIDERS
from atp.protocol.errors import InvalidInput
from atp.protocol.names import nearest

SCRIPTED = "scripted"
"""The provider name of models that follow a script instead of predicting."""

SCRIPTED_MODELS = {
    "oracle": "does what the task expects, then says what the task expects",
    "noop": "says one fixed sentence and calls nothing",
    "file:PATH": "follows the script in a YAML file",
    "replay:RUN": "repeats a stored run, or the runs of an experiment, up to the first difference",
}
"""Every scripted model there is, and what it does."""

_FILE = "file:"
_REPLAY = "replay:"


@dataclass(frozen=True, slots=True)
class ModelRef:
    """Which model a cell runs. `str(ref)` parses back to the same value."""

    provider: str
    name: str
    """The rest after the first slash; may hold further slashes."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `openai/gpt-5.2`, `scripted/oracle`, `scripted/noop`, `scripted/file:PATH` or
        `scripted/replay:RUN`.

        Raises:
            InvalidInput: Anything else; the message says what there is, the nearest first.
        """
        provider, slash, name = text.partition("/")
        if not slash or not provider or not name:
            raise InvalidInput(
                f"model {text!r}: write provider/model, for example openai/gpt-5.2 or {SCRIPTED}/oracle"
            )
        if any(not c.isprintable() for c in text) or name != name.strip() or provider != provider.strip():
            raise InvalidInput(f"model {text!r}: the name holds control characters or outer white space")
        if provider == SCRIPTED:
            _check_scripted(name)
        elif provider not in PROVIDERS:
            raise InvalidInput(
                f"model {text!r}: unknown provider {provider!r}{nearest(provider, [*PROVIDERS, SCRIPTED])}; "
                f"known: {', '.join([*PROVIDERS, SCRIPTED])}. An OpenAI-compatible server is openai/MODEL "
                "with --base-url"
            )
        return cls(provider, name)

    @property
    def simulated(self) -> bool:
        """Whether results come from a script and must be marked so."""
        return self.provider == SCRIPTED

    @property
    def script_path(self) -> Path | None:
        """The script of `scripted/file:PATH`; None for every other model."""
        path = self._after(_FILE)
        return None if path is None else Path(path)

    @property
    def replayed(self) -> str | None:
        """Which run, experiment or cell `scripted/replay:RUN` repeats; None for every other model."""
        return self._after(_REPLAY)

    def _after(self, kind: str) -> str | None:
        return self.name[len(kind) :] if self.simulated and self.name.startswith(kind) else None

    def __str__(self) -> str:
        return f"{self.provider}/{self.name}"


def _check_scripted(name: str) -> None:
    if name in ("oracle", "noop"):
        return
    if any(name.startswith(kind) and len(name) > len(kind) for kind in (_FILE, _REPLAY)):
        return
    offered = ", ".join(f"{SCRIPTED}/{known}" for known in SCRIPTED_MODELS)
    raise InvalidInput(
        f"unknown scripted model {f'{SCRIPTED}/{name}'!r}{nearest(name, list(SCRIPTED_MODELS))}; "
        f"there are {offered}"
    )

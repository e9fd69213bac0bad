"""Options whose values are secrets: the store does not hold them, so a resume has to be given them again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from atp.engine.options import RunOptions
from atp.protocol.errors import NotReady
from atp.protocol.secret_shapes import MARK


def refuse_withheld(experiment_id: str, options: RunOptions) -> None:
    """Refuse to go on with options of which one is still what stands in the store for a secret.

    Raises:
        NotReady: Says which are to be given, and how.
    """
    missing = [
        f"-o {owner}.{key}=VALUE"
        for owner, values in (("benchmark", options.benchmark_options), ("harness", options.harness_options))
        for key, value in values.items()
        if MARK in value
    ]
    if missing:
        raise NotReady(
            f"experiment {experiment_id} began with a secret that is not stored; give it again: "
            f"atp resume {experiment_id} {' '.join(missing)}"
        )


def as_frozen(frozen: Any, now: Any) -> Any:
    """What is now, with what stands in the store for a secret where it stands there.

    It may be another secret now: keys are changed, and what was is not known.
    """
    if isinstance(frozen, Mapping) and isinstance(now, Mapping):
        return {key: as_frozen(frozen.get(key), value) for key, value in now.items()}
    return frozen if isinstance(frozen, str) and isinstance(now, str) and MARK in frozen else now

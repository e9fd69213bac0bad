"""What a worker says of itself when it starts."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from typing import Any

from atp.worker.frames import VERSION


def hello() -> dict[str, Any]:
    """Link version, process id, Python version, and every installed distribution with its version."""
    return {
        "version": VERSION,
        "pid": os.getpid(),
        "python": platform.python_version(),
        "packages": {
            name.lower().replace("_", "-"): distribution.version
            for distribution in importlib.metadata.distributions()
            if (name := distribution.metadata["Name"])
        },
    }

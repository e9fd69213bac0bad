"""`make lock`: compile every pinned requirements file anew, and refuse what a resolver does in silence.

A resolver may fall back to a pre-release, or to a version a year old, without a word. Both are
refused here, and then no file changes.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from packaging.version import Version

ROOT = Path(__file__).resolve().parent.parent

DEV_EXTRAS = ("langgraph", "openai-agents", "smolagents")
"""Those that tests import. ADK is not among them: it would take OpenTelemetry back to 1.44. Nor is CrewAI: it
wants openai<3, where the OpenAI Agents SDK wants openai>=3, so a resolver would take an old one of either."""

EXTRAS = {
    "extra-crewai.txt": ("crewai",),
    "extras-together.txt": ("google-adk", "langgraph", "openai-agents", "smolagents"),
}
"""Harnesses within the engine's own process, as many together as their requirements let; for tests."""

LOCKS: tuple[tuple[Path, Sequence[str]], ...] = (
    *(
        (source.with_suffix(".txt"), (str(source),))
        for source in (
            *sorted((ROOT / "adapters" / "harnesses").glob("*.in")),
            *sorted((ROOT / "adapters" / "benchmarks").glob("*/*.in")),
            ROOT / "atp" / "engine" / "hub" / "requirements.in",
            ROOT / "perf" / "bare" / "inspect.in",
        )
    ),
    (
        ROOT / "requirements" / "dev.txt",
        (
            *(f"--extra={extra}" for extra in DEV_EXTRAS),
            *("--group", f"{ROOT / 'pyproject.toml'}:dev", str(ROOT / "pyproject.toml")),
        ),
    ),
    *(
        (
            ROOT / "requirements" / name,
            (*(f"--extra={extra}" for extra in extras), str(ROOT / "pyproject.toml")),
        )
        for name, extras in EXTRAS.items()
    ),
)
"""A pinned file, and what it is compiled from."""

ALWAYS_BETA = frozenset(
    {
        "opentelemetry-exporter-http-transport",
        "opentelemetry-exporter-otlp-common",
        "opentelemetry-semantic-conventions",
    }
)
"""Distributions that only ever publish pre-releases, and are needed by one that does not."""

UV_PINS = ROOT / "requirements" / "uv.txt"
"""What pip installs first: the line of uv out of `dev.txt`."""

_PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", re.MULTILINE)


def main() -> None:
    """Compile all, check all, then replace all."""
    with tempfile.TemporaryDirectory() as scratch:
        compiled = {target: _compile(target, sources, Path(scratch)) for target, sources in LOCKS}
    faults = [
        f"{target.relative_to(ROOT)}: {fault}"
        for target, text in compiled.items()
        for fault in refusals(pins(target.read_text(encoding="utf-8")) if target.exists() else {}, pins(text))
    ]
    if faults:
        sys.exit("\n".join(["nothing was changed:", *faults]))
    for target, text in compiled.items():
        target.write_text(text, encoding="utf-8")
    UV_PINS.write_text(block_of("uv", compiled[ROOT / "requirements" / "dev.txt"]), encoding="utf-8")


def pins(text: str) -> dict[str, Version]:
    """Distribution -> the newest version that a pinned file names for it (markers may split one)."""
    found: dict[str, Version] = {}
    for name, version in _PIN.findall(text):
        found[name] = max(Version(version), found.get(name, Version(version)))
    return found


def refusals(old: dict[str, Version], new: dict[str, Version]) -> list[str]:
    """Why the new pins are not taken: one line for each pre-release and each downgrade."""
    return [
        *(
            f"{name} {version} is a pre-release"
            for name, version in new.items()
            if version.is_prerelease and name not in ALWAYS_BETA
        ),
        *(
            f"{name} goes back from {old[name]} to {version}"
            for name, version in new.items()
            if name in old and version < old[name]
        ),
    ]


def block_of(name: str, text: str) -> str:
    """The pin of one distribution with its digests, out of a pinned file."""
    found = re.search(rf"^{re.escape(name)}==.*?(?=^\S|\Z)", text, re.MULTILINE | re.DOTALL)
    if found is None:
        raise LookupError(f"{name} is not pinned")
    return found.group(0)


def _compile(target: Path, sources: Sequence[str], scratch: Path) -> str:
    output = scratch / target.name
    subprocess.run(
        [
            *(sys.executable, "-m", "atp.engine.installer", "pip", "compile", "--quiet", "--universal"),
            *("--python-version", "3.11", "--generate-hashes", "--no-emit-index-url", "--no-emit-find-links"),
            *("--no-annotate", "--no-header", "--upgrade", "-o", str(output), *sources),
        ],
        check=True,
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
    )
    return output.read_text(encoding="utf-8")


if __name__ == "__main__":
    main()

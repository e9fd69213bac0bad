"""Runs `uv`, with the package index that this machine's pip is set up for.

uv does not read pip's configuration. A machine that reaches its packages through a mirror says so
there, so what pip would use is handed on, wherever uv's own variables do not already say otherwise.
Standard library only: the Makefile runs `python -m atp.engine.installer` before anything is installed.
"""

from __future__ import annotations

import asyncio
import configparser
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run of uv ended."""

    exit_code: int
    output: str
    """Standard output and standard error, interleaved."""

    @property
    def error(self) -> str:
        """What uv says went wrong: the output from its first `error:` on."""
        start = self.output.find("error:")
        return self.output[max(start, 0) :].strip()


async def uv(*arguments: str) -> Outcome:
    """Run uv to its end; cancelling ends it.

    Args:
        arguments: As on its command line. No index is ever named there.
    """
    process = await asyncio.create_subprocess_exec(
        uv_binary(),
        *arguments,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=uv_environment(os.environ),
    )
    try:
        output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode is not None
    return Outcome(process.returncode, output.decode(errors="replace"))


def uv_binary() -> str:
    """The path of the uv that our distribution depends on."""
    from uv import find_uv_bin

    return find_uv_bin()


def uv_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables for uv: those given, and pip's configuration in uv's terms.

    Args:
        environ: The process's environment; `PIP_*` there goes before pip's files, as in pip.
    """
    result = {**environ, "UV_PYTHON_DOWNLOADS": "never", "UV_NO_PROGRESS": "1"}
    pip = _pip_configuration(environ)
    links = [link for link in pip.get("find-links", "").split() if "://" in link or Path(link).exists()]
    translated = {
        ("UV_DEFAULT_INDEX", "UV_INDEX_URL"): pip.get("index-url", ""),
        ("UV_INDEX", "UV_EXTRA_INDEX_URL"): " ".join(pip.get("extra-index-url", "").split()),
        ("UV_FIND_LINKS",): ",".join(links),
        ("UV_INSECURE_HOST",): " ".join(pip.get("trusted-host", "").split()),
        ("SSL_CERT_FILE",): pip.get("cert", ""),
    }
    for names, value in translated.items():
        if value and not any(name in environ for name in names):
            result[names[0]] = value
    return result


def _pip_configuration(environ: Mapping[str, str]) -> dict[str, str]:
    """What pip would read: its files from the most general to the most special, then `PIP_*`."""
    settings: dict[str, str] = {}
    for path in _pip_files(environ):
        parser = configparser.RawConfigParser()
        if path.is_file() and parser.read(path, encoding="utf-8"):
            for section in ("global", "install"):
                if parser.has_section(section):
                    settings.update({key.replace("_", "-"): value for key, value in parser.items(section)})
    for name in ("index-url", "extra-index-url", "find-links", "trusted-host", "cert"):
        value = environ.get(f"PIP_{name.upper().replace('-', '_')}")
        if value is not None:
            settings[name] = value
    return settings


def _pip_files(environ: Mapping[str, str]) -> Sequence[Path]:
    """https://pip.pypa.io/en/stable/topics/configuration/ gives the places and their order."""
    named = environ.get("PIP_CONFIG_FILE")
    if named == os.devnull:
        return ()
    user = Path(environ.get("HOME") or Path.home())
    system = [Path(folder) / "pip" / "pip.conf" for folder in _xdg_folders(environ)]
    return (
        *system,
        Path("/etc/pip.conf"),
        user / ".pip" / "pip.conf",
        Path(environ.get("XDG_CONFIG_HOME") or user / ".config") / "pip" / "pip.conf",
        Path(sys.prefix) / "pip.conf",
        *([Path(named)] if named else []),
    )


def _xdg_folders(environ: Mapping[str, str]) -> Sequence[str]:
    return (environ.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(":")


if __name__ == "__main__":
    os.execve(uv_binary(), ["uv", *sys.argv[1:]], uv_environment(os.environ))

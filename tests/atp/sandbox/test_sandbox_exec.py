"""Commands in a sandbox: what they may do, what they leave, how they end."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import signal

import pytest

from atp.protocol.errors import InfrastructureError, SandboxError
from atp.protocol.task import SandboxSpec
from atp.sandbox import open_sandbox


async def test_a_command_gets_its_input_and_gives_both_outputs_and_its_exit_code() -> None:
    async with await open_sandbox(SandboxSpec()) as box:
        result = await box.exec(["sh", "-c", "cat; echo bad >&2; exit 7"], stdin=b"x" * 300_000)
    assert (result.stdout, result.stderr, result.exit_code) == (b"x" * 300_000, b"bad\n", 7)
    assert (result.signal, result.timed_out, result.limit) == (None, False, None)


async def test_files_stay_from_one_command_to_the_next() -> None:
    async with await open_sandbox(SandboxSpec(), {"in/a.txt": b"1"}) as box:
        await box.exec(["sh", "-c", "cat in/a.txt > b.txt; echo 2 >> b.txt"])
        result = await box.exec(["cat", "/box/b.txt"])
    assert result.stdout == b"12\n"


async def test_a_program_that_does_not_exist_is_an_error_that_names_it() -> None:
    async with await open_sandbox(SandboxSpec()) as box:
        with pytest.raises(SandboxError, match="no-such-program"):
            await box.exec(["no-such-program"])


async def test_variables_and_directory_are_the_callers() -> None:
    async with await open_sandbox(SandboxSpec(), {"d/x": b""}) as box:
        result = await box.exec(["sh", "-c", "pwd; echo $WORD"], env={"WORD": "w"}, cwd="d")
    assert result.stdout == b"/box/d\nw\n"


async def test_nothing_of_the_engines_environment_is_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATP_TEST_SECRET", "s3cret")
    async with await open_sandbox(SandboxSpec()) as box:
        result = await box.exec(["sh", "-c", "env; cat /proc/*/environ 2>/dev/null"])
    assert b"s3cret" not in result.stdout
    assert {line.split(b"=")[0] for line in result.stdout.split(b"\0")[0].splitlines()} <= {
        b"HOME", b"LANG", b"PATH", b"PWD", b"PYTHONDONTWRITEBYTECODE", b"TMPDIR", b"OLDPWD", b"SHLVL", b"_",
    }  # fmt: skip


async def test_the_engines_packages_cannot_be_imported_inside() -> None:
    async with await open_sandbox(SandboxSpec()) as box:
        result = await box.exec([box.python, "-c", "import pydantic"])
    assert b"ModuleNotFoundError" in result.stderr


async def test_the_system_is_read_only_and_small() -> None:
    script = "for d in / /usr /dev /proc/sys/kernel /etc; do touch $d/x 2>&- && echo $d; done; ls /etc /home"
    async with await open_sandbox(SandboxSpec()) as box:
        result = await box.exec(["sh", "-c", script])
    assert result.stdout.replace(b"/etc:\n", b"").strip() in (b"", b"ld.so.cache")


async def test_there_is_no_network_and_no_further_user_namespace() -> None:
    script = (
        "import socket, ctypes\n"
        "try: socket.create_connection(('1.1.1.1', 80), 2)\n"
        "except OSError as e: print('refused')\n"
        "print(open('/proc/net/route').read().count('\\n'))\n"
        "print(ctypes.CDLL(None).unshare(0x10000000))\n"
    )
    async with await open_sandbox(SandboxSpec()) as box:
        result = await box.exec([box.python, "-c", script])
    assert result.stdout.split() == [b"refused", b"1", b"-1"]


async def test_only_the_boxs_own_processes_are_visible_and_process_1_is_closed_to_them() -> None:
    script = (
        "import os, signal\n"
        "print([p for p in os.listdir('/proc') if p.isdigit()] == ['1', str(os.getpid())])\n"
        "os.kill(1, signal.SIGKILL)\n"
        "for p in ('fd/0', 'mem', 'environ'):\n"
        "  try: open('/proc/1/' + p, 'rb'); print(p)\n"
        "  except PermissionError: pass\n"
    )
    async with await open_sandbox(SandboxSpec()) as box:
        result = await box.exec([box.python, "-c", script])
        again = await box.exec(["echo", "alive"])
    assert (result.stdout, result.stderr) == (b"True\n", b"")
    assert again.stdout == b"alive\n"


async def test_output_beyond_the_limit_is_counted_and_dropped() -> None:
    async with await open_sandbox(SandboxSpec(output=1000)) as box:
        result = await box.exec(["sh", "-c", "head -c 5000000 /dev/zero; head -c 1500 /dev/zero >&2"])
    assert (len(result.stdout), result.stdout_dropped) == (1000, 4_999_000)
    assert (len(result.stderr), result.stderr_dropped) == (1000, 500)


async def test_time_that_is_up_kills_the_command_and_what_it_left_behind() -> None:
    script = "setsid sh -c 'sleep 61 & sleep 62' >/dev/null 2>&1 & exec sleep 63"
    async with await open_sandbox(SandboxSpec()) as box:
        result = await box.exec(["sh", "-c", script], timeout=0.3)
        left = await box.exec(["sh", "-c", "ls -d /proc/[0-9]*"])
    assert (result.timed_out, result.exit_code, result.signal) == (True, None, signal.SIGKILL)
    assert left.stdout.count(b"/proc/") == 2  # process 1 and ls itself


@pytest.mark.parametrize("argv", [["sleep", "60"], ["no-such-program"]])
async def test_time_that_is_up_before_the_command_runs_leaves_the_box_usable(argv: list[str]) -> None:
    async with await open_sandbox(SandboxSpec()) as box:
        for _ in range(5):
            with contextlib.suppress(SandboxError, InfrastructureError):
                await box.exec(argv, timeout=1e-6)
        assert (await box.exec(["echo", "on"])).stdout == b"on\n"


async def test_a_process_that_stops_all_others_does_not_outlast_the_time() -> None:
    hostile = "import os\nwhile True:\n  try: os.kill(-1, 19)\n  except ProcessLookupError: pass"
    async with await open_sandbox(SandboxSpec()) as box:
        await box.start([box.python, "-I", "-S", "-c", hostile])
        result = await box.exec(["sleep", "60"], timeout=0.5)
        assert (result.timed_out, result.signal) == (True, signal.SIGKILL)
        assert (await box.exec(["echo", "on"])).stdout == b"on\n"


async def test_a_command_that_ends_is_not_waited_for_by_what_it_left_behind() -> None:
    async with await open_sandbox(SandboxSpec()) as box:
        result = await box.exec(["sh", "-c", "sleep 60 & echo done"])
    assert (result.stdout, result.timed_out) == (b"done\n", False)


async def test_cpu_time_is_limited_for_each_process() -> None:
    async with await open_sandbox(SandboxSpec(cpu=1)) as box:
        result = await box.exec([box.python, "-c", "while True: pass"])
    assert (result.signal, result.timed_out) == (signal.SIGXCPU, False)


async def test_the_address_space_of_a_process_is_limited() -> None:
    async with await open_sandbox(SandboxSpec()) as box:
        result = await box.exec([box.python, "-c", "bytearray(10 << 30)"])
    assert b"MemoryError" in result.stderr


async def test_the_memory_of_all_processes_together_is_limited() -> None:
    script = (
        "import os, time\n"
        "for _ in range(5):\n"
        "  if os.fork() == 0: b = bytearray(100 << 20); b[::4096] = b'x' * len(b[::4096]); time.sleep(30)\n"
        "time.sleep(30)\n"
    )
    async with await open_sandbox(SandboxSpec(memory=160 << 20, timeout=30)) as box:
        result = await box.exec([box.python, "-c", script])
    assert (result.limit, result.timed_out) == ("memory", False)


async def test_processes_and_threads_are_limited() -> None:
    script = (
        "import threading, time\n"
        "n = 0\n"
        "try:\n"
        "  while True: threading.Thread(target=time.sleep, args=(5,), daemon=True).start(); n += 1\n"
        "except RuntimeError: print(n)\n"
    )
    async with await open_sandbox(SandboxSpec(processes=10)) as box:
        result = await box.exec([box.python, "-c", script])
    assert result.limit == "processes" or int(result.stdout) <= 10


async def test_a_fork_bomb_stays_in_the_box() -> None:
    async with await open_sandbox(SandboxSpec(timeout=2)) as box:
        await box.exec([box.python, "-c", "import os\nwhile True:\n  try: os.fork()\n  except OSError: pass"])
        result = await box.exec(["echo", "still here"])
    assert result.stdout == b"still here\n"


async def test_the_writable_space_and_each_file_are_limited() -> None:
    script = "for i in 1 2 3; do head -c ${i}000000 /dev/zero > f$i; done; stat -c %s f*"
    async with await open_sandbox(SandboxSpec(file_size=1 << 20)) as box:
        result = await box.exec(["sh", "-c", script])
    assert sum(map(int, result.stdout.split())) <= 1 << 20


async def test_every_sandbox_is_its_own() -> None:
    async def one(word: bytes) -> bytes:
        async with await open_sandbox(SandboxSpec(), {"w": word}) as box:
            return (await box.exec(["sh", "-c", "sleep 0.1; ls; cat w"])).stdout

    words = [hashlib.sha256(bytes([i])).hexdigest().encode() for i in range(4)]
    assert await asyncio.gather(*map(one, words)) == [b"w\n" + word for word in words]

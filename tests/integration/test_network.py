"""A run with scripted models speaks to this machine only: by the system calls of all its processes."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from atp import registry
from atp.engine import environments
from scripts.harnesses_page import HARNESSES

pytestmark = pytest.mark.integration

NETWORK_CALLS = "connect,sendto,sendmsg,sendmmsg"
_ADDRESS = re.compile(r"sa_family=(AF_\w+)(.*?)\}")
_LOOPBACK = ('inet_addr("127.', 'inet_pton(AF_INET6, "::1"')


def strangers(log: str) -> list[str]:
    """The system calls of a trace that name an address outside this machine."""
    found = []
    for line in log.splitlines():
        for family, rest in _ADDRESS.findall(line):
            local = family in ("AF_UNIX", "AF_NETLINK", "AF_UNSPEC")
            if not local and not any(address in rest for address in _LOOPBACK):
                found.append(line)
    return found


@pytest.mark.parametrize(
    ("line", "strange"),
    [
        (
            'connect(3, {sa_family=AF_INET, sin_port=htons(80), sin_addr=inet_addr("127.0.0.1")}, 16) = 0',
            False,
        ),
        ('connect(3, {sa_family=AF_UNIX, sun_path="/run/x"}, 110) = 0', False),
        ('connect(3, {sa_family=AF_INET, sin_port=htons(53), sin_addr=inet_addr("10.0.0.2")}, 16) = 0', True),
        ('sendto(3, "x", 1, 0, {sa_family=AF_INET6, inet_pton(AF_INET6, "2001:db8::1", &x)}, 28) = 1', True),
        ("sendto(3, 0x0, 1, 0, NULL, 0) = 1", False),
    ],
)
def test_an_address_outside_this_machine_is_seen_in_a_trace(line: str, strange: bool) -> None:
    assert bool(strangers(line)) is strange


@pytest.mark.parametrize("harness", HARNESSES)
def test_a_run_with_a_scripted_model_connects_to_this_machine_only(harness: str, tmp_path: Path) -> None:
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("strace is not installed")
    asyncio.run(environments.create(registry.harness(harness)))
    log = tmp_path / "strace.log"
    traced = [strace, "-f", "-qq", "-e", f"trace={NETWORK_CALLS}", "-o", str(log)]
    command = ["run", "-b", "ledger", "-H", harness, "-m", "scripted/oracle", "-n", "2", "--json"]
    done = subprocess.run(
        [*traced, sys.executable, "-m", "atp.cli", *command],
        cwd=tmp_path,
        env=os.environ,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["cells"][0]["mean"] == 1.0
    calls = log.read_text(encoding="utf-8")
    assert 'inet_addr("127.0.0.1")' in calls  # the trace has seen the harness call its model
    assert strangers(calls) == []

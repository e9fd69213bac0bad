"""The first process of a box: starts commands, carries their streams, enforces what rlimits cannot.

Its text is handed to the box's Python after those of `box_frames` and `box_files`, so it has no
imports of this distribution and few of the standard library. It is process 1 of its PID namespace:
nothing in the box can kill it, and when it ends the kernel ends everything else there. It ends when
the engine's pipe does.
"""

from __future__ import annotations

import ctypes
import os
import resource
import select
import signal
import sys
import time

# The name alone is what type checkers go by; importing `typing` would take 20 ms in the box.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from atp.sandbox.box_files import MAX_FILES, count_files, matching, open_regular, write
    from atp.sandbox.box_frames import (
        CHUNK,
        CONSUMED,
        DATA,
        DONE,
        EXIT,
        EXPORT,
        FAILED,
        FED,
        FILE,
        HEADER,
        HELLO,
        KILL,
        KILL_ALL,
        START,
        STARTED,
        STDERR,
        STDIN,
        STDIN_END,
        STDOUT,
        WINDOW,
        WRITE,
        frame,
        pack,
        unpack,
    )

PERIOD = 0.05
"""Seconds; how often the sums over all processes are looked at."""
PR_SET_DUMPABLE = 4


class Command:
    """One started command and its streams."""

    def __init__(
        self, number: int, pid: int, streams: tuple[int, int, int], told: int, keep: dict[int, int]
    ) -> None:
        self.number = number
        self.pid = pid
        self.told: int | None = told
        """Where failing to execute is told; None once it is known."""
        self.stdin: int | None = streams[0]
        self.pending = bytearray()
        self.stdin_ended = False
        self.outputs = {streams[1]: STDOUT, streams[2]: STDERR}
        self.keep = keep
        """Kind -> bytes still to be kept; a kind that is absent is streamed under a window."""
        self.dropped = {STDOUT: 0, STDERR: 0}
        self.window = WINDOW
        self.reason = b""


class Init:
    """The loop."""

    def __init__(self, limits: list[int]) -> None:
        self.memory, self.cpu, self.processes, self.nproc, self.file_size, self.open_files = limits
        self.engine_in = os.dup(0)
        self.engine_out = os.dup(1)
        null = os.open("/dev/null", os.O_RDWR)
        os.dup2(null, 0)
        os.dup2(null, 1)
        os.set_blocking(self.engine_in, False)
        os.set_blocking(self.engine_out, False)
        self.incoming = bytearray()
        self.outgoing = bytearray()
        self.commands: dict[int, Command] = {}
        self.look_at = 0.0
        self.crowd = 0
        """Threads in the box besides this process, when last counted."""
        self.woken, waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def run(self) -> NoReturn:
        """Serve until the engine goes away."""
        version = ".".join(map(str, sys.version_info[:3])).encode()
        self.send(HELLO, 0, version)
        while True:
            ready = dict(self.wait())
            if self.woken in ready:
                os.read(self.woken, 4096)
            if self.engine_out in ready:
                self.flush()
            if self.engine_in in ready:
                self.receive()
            for command in list(self.commands.values()):
                self.move_streams(command, ready)
            if self.woken in ready:
                self.reap()
            if time.monotonic() >= self.look_at:
                self.look_at = time.monotonic() + PERIOD
                self.watch()

    def wait(self) -> list[tuple[int, int]]:
        poll = select.poll()
        poll.register(self.woken, select.POLLIN)
        poll.register(self.engine_in, select.POLLIN)
        if self.outgoing:
            poll.register(self.engine_out, select.POLLOUT)
        for command in self.commands.values():
            if command.told is not None:
                poll.register(command.told, select.POLLIN)
            if command.stdin is not None and command.pending:
                poll.register(command.stdin, select.POLLOUT)
            if len(self.outgoing) < WINDOW:
                for pipe, kind in command.outputs.items():
                    if kind in command.keep or command.window > 0:
                        poll.register(pipe, select.POLLIN)
        return poll.poll(PERIOD * 1000 if self.commands or self.crowd else None)

    def send(self, kind: int, number: int, payload: bytes = b"") -> None:
        self.outgoing += frame(kind, number, payload)
        self.flush()

    def flush(self) -> None:
        try:
            while self.outgoing:
                del self.outgoing[: os.write(self.engine_out, self.outgoing[:CHUNK])]
        except BlockingIOError:
            return

    def drain(self) -> None:
        """Wait until the engine has taken everything."""
        while self.outgoing:
            select.select([], [self.engine_out], [])
            self.flush()

    def receive(self) -> None:
        data = os.read(self.engine_in, CHUNK)
        if not data:
            os._exit(0)
        self.incoming += data
        while len(self.incoming) >= HEADER.size:
            size, kind, number = HEADER.unpack_from(self.incoming)
            if len(self.incoming) < HEADER.size + size:
                return
            payload = bytes(self.incoming[HEADER.size : HEADER.size + size])
            del self.incoming[: HEADER.size + size]
            self.obey(kind, number, payload)

    def obey(self, kind: int, number: int, payload: bytes) -> None:
        try:
            if kind == START:
                self.start(number, unpack(payload))
            elif kind == WRITE:
                write(*unpack(payload))
                self.send(DONE, number)
            elif kind == EXPORT:
                self.export(number, unpack(payload))
            elif kind == KILL_ALL:
                self.kill_all(payload)
            elif number in self.commands:
                self.direct(self.commands[number], kind, payload)
        except OSError as error:
            self.send(FAILED, number, f"{error.strerror}: {error.filename}".encode())

    def direct(self, command: Command, kind: int, payload: bytes) -> None:
        if kind == STDIN:
            if command.stdin is None:
                self.send(FED, command.number, b"%d" % len(payload))
            else:
                command.pending += payload
                self.feed(command)
        elif kind == STDIN_END:
            command.stdin_ended = True
            self.feed(command)
        elif kind == KILL:
            kill_group(command.pid)
        elif kind == CONSUMED:
            command.window += int(payload)

    def start(self, number: int, fields: list[bytes]) -> None:
        cwd, keep_stdout, keep_stderr, count, *rest = fields
        argv, env = rest[: int(count)], rest[int(count) :]
        # Failing to execute is told through a pipe that closes by itself when it works. Nobody waits
        # for it: what else runs in the box may stop the child on its way.
        stdin, stdout, stderr, told = os.pipe(), os.pipe(), os.pipe(), os.pipe()
        pid = os.fork()
        if pid == 0:
            self.become(cwd, argv, env, (stdin[0], stdout[1], stderr[1]), told[1])
        for inherited in (stdin[0], stdout[1], stderr[1], told[1]):
            os.close(inherited)
        for ours in (stdin[1], stdout[0], stderr[0]):
            os.set_blocking(ours, False)
        keep = {STDERR: int(keep_stderr)}
        if keep_stdout:
            keep[STDOUT] = int(keep_stdout)
        self.commands[number] = Command(number, pid, (stdin[1], stdout[0], stderr[0]), told[0], keep)

    def settle(self, command: Command) -> None:
        """Say whether the command could be executed, once that is known."""
        if command.told is None:
            return
        problem = os.read(command.told, 4096)
        os.close(command.told)
        command.told = None
        self.send(FAILED if problem else STARTED, command.number, problem)

    def become(
        self, cwd: bytes, argv: list[bytes], env: list[bytes], streams: tuple[int, int, int], told: int
    ) -> NoReturn:
        """In the child: limits, streams, and the command."""
        try:
            os.setsid()
            for target, source in enumerate(streams):
                os.dup2(source, target)
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD):
                signal.signal(number, signal.SIG_DFL)
            lower(resource.RLIMIT_AS, self.memory)
            lower(resource.RLIMIT_FSIZE, self.file_size)
            lower(resource.RLIMIT_NOFILE, self.open_files)
            lower(resource.RLIMIT_CORE, 0)
            lower(resource.RLIMIT_CPU, self.cpu, self.cpu + 1)
            if self.nproc:
                lower(resource.RLIMIT_NPROC, self.nproc)
            os.chdir(cwd)
            variables = dict(pair.split(b"=", 1) for pair in env)
            os.execvpe(argv[0], argv, variables)
        except (OSError, ValueError) as error:
            os.write(told, f"{os.fsdecode(argv[0])}: {error}".encode()[:4096])
        finally:
            os._exit(127)

    def move_streams(self, command: Command, ready: dict[int, int]) -> None:
        if command.told in ready:
            self.settle(command)
        if command.stdin is not None and command.stdin in ready:
            self.feed(command)
        for pipe in [pipe for pipe in command.outputs if pipe in ready]:
            self.carry(command, pipe)

    def feed(self, command: Command) -> None:
        if command.stdin is None:
            return
        try:
            while command.pending:
                written = os.write(command.stdin, command.pending[:CHUNK])
                del command.pending[:written]
                self.send(FED, command.number, b"%d" % written)
        except BlockingIOError:
            return
        except BrokenPipeError:
            self.send(FED, command.number, b"%d" % len(command.pending))
            command.pending.clear()
            command.stdin_ended = True
        if command.stdin_ended:
            os.close(command.stdin)
            command.stdin = None

    def carry(self, command: Command, pipe: int) -> bool:
        """Move one chunk of output; whether there may be more."""
        kind = command.outputs[pipe]
        try:
            data = os.read(pipe, CHUNK)
        except BlockingIOError:
            return False
        if not data:
            os.close(pipe)
            del command.outputs[pipe]
            return False
        if kind in command.keep:
            kept = data[: command.keep[kind]]
            command.keep[kind] -= len(kept)
            command.dropped[kind] += len(data) - len(kept)
            data = kept
        else:
            command.window -= len(data)
        if data:
            self.send(kind, command.number, data)
        return True

    def reap(self) -> None:
        by_pid = {command.pid: command for command in self.commands.values()}
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid in by_pid:
                self.finish(by_pid[pid], status)

    def finish(self, command: Command, status: int) -> None:
        self.settle(command)
        # What is in the pipes belongs to the command; what a process it left behind may still
        # write does not, and nobody waits for it.
        for pipe in list(command.outputs):
            for _ in range(16):
                if not self.carry(command, pipe):
                    break
        for pipe in command.outputs:
            os.close(pipe)
        if command.stdin is not None:
            self.send(FED, command.number, b"%d" % len(command.pending))
            os.close(command.stdin)
        del self.commands[command.number]
        dropped = [b"%d" % command.dropped[kind] for kind in (STDOUT, STDERR)]
        code = os.waitstatus_to_exitcode(status)
        self.send(EXIT, command.number, pack(b"%d" % code, *dropped, command.reason))

    def watch(self) -> None:
        """Hold the sums: rlimits bind one process, these bind the box."""
        if not self.commands and not self.crowd:
            return
        threads, resident = crowd()
        self.crowd = threads
        if threads > self.processes:
            self.kill_all(b"processes")
        elif resident + shared_segments() > 2 * self.memory:
            self.kill_all(b"memory")
        elif any(count_files(place) > MAX_FILES for place in (b"/box", b"/tmp", b"/dev/shm")):
            self.kill_all(b"files")

    def kill_all(self, reason: bytes) -> None:
        """End every process of the box but this one; the kernel does it in one step."""
        for command in self.commands.values():
            command.reason = command.reason or reason
        try:
            os.kill(-1, signal.SIGKILL)
        except ProcessLookupError:
            return

    def export(self, number: int, fields: list[bytes]) -> None:
        max_files, max_bytes, *patterns = fields
        files, room = int(max_files), int(max_bytes)
        for path in matching(patterns):
            source = open_regular(path)
            if source is None:
                continue
            try:
                files -= 1
                if files < 0:
                    self.send(FAILED, number, b"more than %s files match" % max_files)
                    return
                self.send(FILE, number, path)
                while data := os.read(source, CHUNK):
                    room -= len(data)
                    if room < 0:
                        self.send(FAILED, number, b"the files hold more than %s bytes" % max_bytes)
                        return
                    self.send(DATA, number, data)
                    self.drain()
            finally:
                os.close(source)
        self.send(DONE, number)


def lower(kind: int, soft: int, hard: int | None = None) -> None:
    """Set a limit, never above the one inherited."""
    inherited = resource.getrlimit(kind)[1]
    top = soft if hard is None else hard
    if inherited != resource.RLIM_INFINITY:
        soft, top = min(soft, inherited), min(top, inherited)
    resource.setrlimit(kind, (soft, top))


def crowd() -> tuple[int, int]:
    """Threads in the box besides this process, and the memory they hold in bytes."""
    threads = memory = 0
    for name in os.listdir("/proc"):
        if not name.isdigit() or name == "1":
            continue
        try:
            with open(f"/proc/{name}/status", "rb", buffering=0) as file:
                lines = file.read().split(b"\n")
        except (FileNotFoundError, ProcessLookupError):
            continue  # It ended while we looked.
        # A process that has ended but is not waited for yet has no memory lines.
        values = dict(line.split(b":", 1) for line in lines if b":" in line)
        if b"VmRSS" in values:
            threads += int(values[b"Threads"])
            memory += sum(int(values[key].split()[0]) << 10 for key in (b"RssAnon", b"RssShmem"))
    return threads, memory


def shared_segments() -> int:
    """Bytes of System V shared memory, which outlives every process and is in no process's size."""
    try:
        with open("/proc/sysvipc/shm", "rb") as file:
            return sum(int(line.split()[3]) for line in file.readlines()[1:])
    except FileNotFoundError:
        return 0  # The kernel has none.


def kill_group(pid: int) -> None:
    """Kill a command's process group; it may be gone already."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


if __name__ == "__main__":
    # When the machine runs out of memory, the box goes first. Commands inherit it.
    with open("/proc/self/oom_score_adj", "w", encoding="ascii") as adjust:
        adjust.write("1000")
    # Nobody else in the box may look into this process or take its descriptors.
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    Init([int(value) for value in sys.argv[1:]]).run()

"""Run what a model wrote, where it can harm nothing. `docs/sandbox.md` says what holds and why."""

from atp.sandbox.interface import (
    ExecResult,
    LineTooLong,
    ProbeResult,
    Sandbox,
    SandboxError,
    SandboxProcess,
)
from atp.sandbox.opening import Backend, open_sandbox, probe

__all__ = [
    "Backend",
    "ExecResult",
    "LineTooLong",
    "ProbeResult",
    "Sandbox",
    "SandboxError",
    "SandboxProcess",
    "open_sandbox",
    "probe",
]

"""Run what a model wrote, where it can harm nothing. `docs/sandbox.md` says what holds and why."""

from atp.sandbox.interface import (
    ExecResult,
    ProbeResult,
    Sandbox,
    SandboxProcess,
)
from atp.sandbox.opening import Backend, open_sandbox, probe

__all__ = [
    "Backend",
    "ExecResult",
    "ProbeResult",
    "Sandbox",
    "SandboxProcess",
    "open_sandbox",
    "probe",
]

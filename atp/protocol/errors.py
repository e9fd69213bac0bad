"""Everything ATP raises, in one tree.

    AtpError                       code, fault, message
     ├─ UsageError                 what was asked for cannot be: exit 2 or 3, before anything is spent
     │   ├─ UnknownName            no such benchmark, harness, model, task, run
     │   ├─ NotReady               an environment, extra, key or data set is missing; says the command
     │   ├─ InvalidInput           a file, option or document breaks its rules
     │   └─ PluginError            an entry point that cannot be loaded or is not what it says
     ├─ AgentError                 the harness or its model did something that ends the run
     │   └─ ReplyRefused           its SDK raised on a reply of its model that was whole
     ├─ ToolFailed                 a tool reported failure; the text is meant for the model
     ├─ SandboxError               a sandbox cannot do what it was asked
     │   └─ LineTooLong            a process wrote more than its reader takes without a line end
     ├─ InfrastructureError        network, disk, provider, process
     │   ├─ WorkerDied             the worker process ended with the attempt in flight
     │   ├─ LinkBroken             a frame broke the rules of the link, or the peer is gone
     │   ├─ UnreadableReply        what a provider answered to a model call of the harness is no reply
     │   ├─ SandboxUnavailable     no sandbox can be started here; says what to change
     │   ├─ ModelCallFailed        a model that the engine calls for a user or a judge gave no reply
     │   └─ StoreError             the database refused or lost something
     └─ BenchmarkError             environment, grader or data of the benchmark raised

`code` is machine-readable and stable; `fault` says who can mend it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar


class Fault(StrEnum):
    """Who can mend it."""

    USER = "user"
    AGENT = "agent"
    INFRASTRUCTURE = "infrastructure"
    BENCHMARK = "benchmark"


class AtpError(Exception):
    """Base of all errors of ATP.

    Args:
        message: What is wrong, naming the thing, its value and the way out.
        code: Overrides the class's machine-readable code.
    """

    code: str = "error"
    fault: ClassVar[Fault] = Fault.INFRASTRUCTURE

    def __init__(self, message: str, *, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        if code is not None:
            self.code = code


class UsageError(AtpError):
    """What was asked for cannot be done as asked; nothing was started."""

    code = "usage"
    fault = Fault.USER


class UnknownName(UsageError):
    """A name that nothing answers to."""

    code = "unknown_name"


class NotReady(UsageError):
    """Something is missing before a run can start; the message says the command that brings it."""

    code = "not_ready"


class InvalidInput(UsageError):
    """A file, option or document that breaks its rules."""

    code = "invalid_input"


class PluginError(UsageError):
    """An entry point that cannot be loaded, or is not what it says."""

    code = "plugin"


class AgentError(AtpError):
    """The harness or its model did something that ends the run."""

    code = "agent_error"
    fault = Fault.AGENT


class ReplyRefused(AgentError):
    """The SDK of a harness raised on a reply that was whole: its model wrote what it does not take."""

    code = "reply_refused"


class ToolFailed(AtpError):
    """A tool reported failure; the message is text for the model."""

    code = "tool_failed"
    fault = Fault.AGENT


class InfrastructureError(AtpError):
    """Network, disk, provider or process."""

    code = "infrastructure"


class WorkerDied(InfrastructureError):
    """The worker process ended while the attempt was in flight."""

    code = "worker_died"


class LinkBroken(InfrastructureError):
    """A frame broke the rules of the link, or the peer is gone."""

    code = "link_broken"


class UnreadableReply(InfrastructureError):
    """A provider answered a model call of the harness with something that is no reply, or is none whole."""

    code = "unreadable_reply"


class SandboxUnavailable(InfrastructureError):
    """No sandbox can be started on this machine."""

    code = "sandbox_unavailable"


class ModelCallFailed(InfrastructureError):
    """A model that the engine calls for a user or a judge gave no reply; it says nothing about the agent.

    Args:
        message: What came instead.
        status_code: The HTTP status, if there was one.
        provider_code: The provider's own code for it, if it gave one.
        retry_after: Seconds after which the provider wants to be asked again, if it said so.
    """

    code = "model_call"

    def __init__(
        self,
        message: str,
        *,
        status_code: int | None = None,
        provider_code: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status_code = status_code
        self.provider_code = provider_code
        self.retry_after = retry_after


class StoreError(InfrastructureError):
    """The database refused or lost something."""

    code = "store"


class BenchmarkError(AtpError):
    """Environment, grader or data of the benchmark raised."""

    code = "benchmark_error"
    fault = Fault.BENCHMARK


class SandboxError(AtpError):
    """A sandbox cannot do what it was asked: no such program, a path outside it, too much to export."""

    code = "sandbox"
    fault = Fault.AGENT


class LineTooLong(SandboxError):
    """A process wrote more than the reader's limit without a line end."""

    code = "line_too_long"

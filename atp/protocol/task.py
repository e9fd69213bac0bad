"""What a benchmark asks for: one item of a data set as a `TaskInput`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, Discriminator, Field

from atp.protocol.base import Digest, Frozen, JsonObject


class TextPart(Frozen):
    """Plain text."""

    type: Literal["text"] = "text"
    text: str


class ImagePart(Frozen):
    """An image, by the digest of its bytes."""

    type: Literal["image"] = "image"
    sha256: Digest
    media_type: str


class FilePart(Frozen):
    """A file, by the digest of its bytes."""

    type: Literal["file"] = "file"
    sha256: Digest
    name: str
    media_type: str


Part: TypeAlias = Annotated[TextPart | ImagePart | FilePart, Discriminator("type")]


def _one_text_part(value: Any) -> Any:
    return ({"type": "text", "text": value},) if isinstance(value, str) else value


Instruction: TypeAlias = Annotated[
    tuple[Part, ...],
    BeforeValidator(_one_text_part, json_schema_input_type=str | tuple[Part, ...]),
]
"""Parts in order; a plain string stands for one text part."""


class Attachment(Frozen):
    """A file that comes with the task; its bytes live in the body store under `sha256`."""

    name: str
    sha256: Digest
    media_type: str
    size: int = Field(ge=0)
    """Bytes."""


class SandboxSpec(Frozen):
    """What code of this task may use where it runs. Times in seconds, sizes in bytes."""

    timeout: float = Field(default=10.0, gt=0)
    """Wall-clock seconds for one command."""
    cpu: float = Field(default=10.0, gt=0)
    """CPU seconds for one process."""
    memory: int = Field(default=1 << 30, gt=0)
    """Address space of one process."""
    processes: int = Field(default=32, gt=0)
    """Processes and threads alive at once."""
    file_size: int = Field(default=64 << 20, gt=0)
    """Largest file, and the size of the writable space."""
    open_files: int = Field(default=256, gt=0)
    output: int = Field(default=1 << 20, gt=0)
    """Bytes kept of each output stream; the rest is counted and dropped."""
    network: Literal[False] = False


class ExpectedAction(Frozen):
    """A tool call that the gold solution makes."""

    name: str
    arguments: JsonObject


class Expected(Frozen):
    """Gold. Stays in the engine: the harness side gets `TaskInput.for_agent()`."""

    actions: tuple[ExpectedAction, ...] = ()
    """Tool calls of the gold solution, in order."""
    outputs: tuple[str, ...] = ()
    """Texts the agent has to say; joined by newlines they are the answer to be matched exactly."""
    verifier: JsonObject = Field(default_factory=dict)
    """What the benchmark's grader needs besides."""


class AgentTask(Frozen):
    """The part of a task that the harness side may see."""

    task_id: str = Field(min_length=1, max_length=512)
    """Stable identity within the data set."""
    instruction: Instruction = ()
    """What is asked; empty for a dialogue until its user speaks."""
    initial_state: JsonObject = Field(default_factory=dict)
    """Plain data. The living environment is in the binding, not here."""
    attachments: tuple[Attachment, ...] = ()
    metadata: Mapping[str, str | int | float | bool | None] = Field(default_factory=dict)
    sandbox: SandboxSpec | None = None

    @property
    def text(self) -> str:
        """The text parts of the instruction, joined by blank lines."""
        return "\n\n".join(part.text for part in self.instruction if isinstance(part, TextPart))


class TaskInput(AgentTask):
    """One item of a benchmark, gold included."""

    expected: Expected | None = None
    """Gold; never leaves the engine."""

    def for_agent(self) -> AgentTask:
        """The same task without its gold: all that the harness side ever gets."""
        return AgentTask.model_validate({name: getattr(self, name) for name in AgentTask.model_fields})

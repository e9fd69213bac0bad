"""How a harness reaches its model, and what bounds an attempt."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field, SecretStr

from atp.protocol.base import Frozen


class Dialect(StrEnum):
    """The wire formats that model clients speak."""

    OPENAI_CHAT = "openai-chat"
    OPENAI_RESPONSES = "openai-responses"
    ANTHROPIC_MESSAGES = "anthropic-messages"
    GEMINI = "gemini"


class Sampling(Frozen):
    """What the user chose; None leaves the provider's default, for every harness alike."""

    temperature: float | None = None
    max_output_tokens: int | None = Field(default=None, gt=0)
    """Tokens of one reply."""


class ModelEndpoint(Frozen):
    """Where an attempt's model calls go. The key travels to the worker and nowhere else."""

    dialect: Dialect
    base_url: str
    model: str
    """The name to send in the request."""
    api_key: SecretStr
    provider: str
    """`openai`, `scripted`, …"""


class Limits(Frozen):
    """Bounds of one attempt, the hard ones; an SDK's own limit comes before them, softly."""

    max_turns: int | None = Field(default=None, gt=0)
    """Model calls of the agent."""
    deadline: float | None = Field(default=None, gt=0)
    """Seconds of the agent phase; set-up and grading have their own."""
    model_timeout: float | None = Field(default=None, gt=0)
    """Seconds for one try of a model call, as the client of the SDK measures it."""
    max_total_tokens: int | None = Field(default=None, gt=0)
    """Input and output tokens of the attempt."""
    max_cost: float | None = Field(default=None, gt=0)
    """USD of the agent's model calls."""

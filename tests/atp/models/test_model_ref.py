"""Names of models."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atp.models import PROVIDERS, ModelRef
from atp.protocol.errors import InvalidInput


def test_the_first_slash_parts_provider_and_name() -> None:
    ref = ModelRef.parse("openai/meta-llama/Llama-4")
    assert (ref.provider, ref.name, ref.simulated) == ("openai", "meta-llama/Llama-4", False)


@pytest.mark.parametrize("name", ["oracle", "noop", "file:a b/c.yaml", "replay:exp-1"])
def test_scripted_models_are_simulated(name: str) -> None:
    assert ModelRef.parse(f"scripted/{name}").simulated


def test_a_file_model_names_its_script() -> None:
    assert ModelRef.parse("scripted/file:dir/x.yaml").script_path == Path("dir/x.yaml")
    assert ModelRef.parse("scripted/oracle").script_path is None
    assert ModelRef.parse("openai/file:x").script_path is None


def test_a_replay_names_what_it_repeats() -> None:
    assert ModelRef.parse("scripted/replay:run-1").replayed == "run-1"
    assert ModelRef.parse("scripted/noop").replayed is None
    assert ModelRef.parse("openai/replay:run-1").replayed is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("gpt-5.2", "write provider/model"),
        ("/gpt", "write provider/model"),
        ("openai/", "write provider/model"),
        ("opanai/gpt-5.2", "nearest: openai"),
        ("mystery/gpt", "known: openai, anthropic, google, scripted"),
        ("scripted/orakle", "nearest: oracle"),
        ("scripted/file:", "there are scripted/oracle, scripted/noop, scripted/file:PATH"),
        (
            "scripted/replay:",
            "there are scripted/oracle, scripted/noop, scripted/file:PATH, scripted/replay:RUN",
        ),
        ("openai/gpt\n", "control characters"),
        ("openai/ gpt", "white space"),
    ],
)
def test_anything_else_is_refused_and_says_the_way_out(text: str, says: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        ModelRef.parse(text)
    assert says in caught.value.message


@given(st.sampled_from(list(PROVIDERS)), st.text(min_size=1))
def test_a_reference_parses_back_from_its_text(provider: str, name: str) -> None:
    try:
        ref = ModelRef.parse(f"{provider}/{name}")
    except InvalidInput:
        return
    assert str(ref) == f"{provider}/{name}"
    assert ModelRef.parse(str(ref)) == ref

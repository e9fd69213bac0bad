"""The options of a run in a file: what it takes, and what it says about mistakes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from typer.main import get_command

from atp.cli.app import app
from atp.engine.experiment_file import ExperimentFile
from atp.protocol.errors import InvalidInput

SAYS_HOW = {"file", "dry-run", "db", "json", "verbose", "quiet", "env-file", "help"}
"""Options that say nothing about an experiment."""


def loaded(folder: Path, text: str) -> dict[str, Any]:
    path = folder / "e.yaml"
    path.write_text(text, encoding="utf-8")
    return ExperimentFile.load(path).arguments()


def test_every_option_of_the_command_can_stand_in_a_file_under_its_own_name() -> None:
    run = get_command(app).commands["run"]  # type: ignore[attr-defined]  # typer says no more than Command
    options = {
        max(option.opts, key=len).lstrip("-"): option.name
        for option in run.params
        if option.name != "context"
    }
    fields = {field.alias: name for name, field in ExperimentFile.model_fields.items()}
    assert fields == {key: name for key, name in options.items() if key not in SAYS_HOW}


def test_one_name_stands_for_a_list_of_one(tmp_path: Path) -> None:
    assert loaded(tmp_path, "benchmark: a\nharness: [b, c]\n") == {"benchmark": ["a"], "harness": ["b", "c"]}


def test_values_are_given_as_the_command_takes_them(tmp_path: Path) -> None:
    text = "n: 3\nno-monitor: true\npython: /bin/p\ndeadline: 30\no: {benchmark.a: 1, harness.b: false}\n"
    assert loaded(tmp_path, text) == {
        "count": 3,
        "no_monitor": True,
        "python": Path("/bin/p"),
        "deadline": 30.0,
        "option": ["benchmark.a=1", "harness.b=false"],
    }


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("benchmark: a\nmax-turn: 3\n", "e.yaml, line 2: max-turn: no such key (nearest: max-turns"),
        ("max_turns: 3\n", "line 1: max_turns: no such key (nearest: max-turns"),
        ("benchmark: a\n\nn: three\n", "line 3: n: Input should be a valid integer"),
        ('n: "3"\n', "line 1: n: Input should be a valid integer"),
        ("n: 0\n", "line 1: n: Input should be greater than or equal to 1"),
        ("model: [a, 5]\n", "line 1: model[2]: Input should be a valid string"),
        ("model: []\n", "line 1: model: List should have at least 1 item"),
        ("n: 3\nall: true\n", "n and all exclude each other"),
        ("n: 3\nn: 4\n", "line 2: key 'n' stands here twice"),
        ("name: !!python/object:os.system x\n", "is not YAML"),
        ("- benchmark\n", "line 1: document: Input should be"),
        ("", "is empty; name a benchmark, a harness and a model"),
    ],
)
def test_a_mistake_is_named_with_file_line_and_key(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        loaded(tmp_path, text)
    assert says in caught.value.message


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="experiment file .*none.yaml: cannot be read"):
        ExperimentFile.load(tmp_path / "none.yaml")


@given(
    st.dictionaries(
        st.sampled_from(["benchmark", "n", "all", "deadline", "o", "no-monitor", "tasks"]),
        st.none() | st.booleans() | st.integers(-1, 5) | st.sampled_from(["a", "1"]) | st.just(["a"]),
        min_size=1,
    )
)
def test_what_the_type_takes_satisfies_its_json_schema(document: dict[str, Any]) -> None:
    try:
        ExperimentFile.model_validate(yaml.safe_load(yaml.safe_dump(document)))
    except ValueError:
        return
    validator = Draft202012Validator(ExperimentFile.model_json_schema())
    assert list(validator.iter_errors(document)) == []

"""The YAML of a scripted model: what it takes, and what it says about mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atp.models.scripted import Script
from atp.protocol.errors import InvalidInput

GOOD = """\
steps:
  - text: default
tasks:
  - match: "HumanEval/1?"
    steps:
      - text: a teen
  - match: "HumanEval/*"
    steps:
      - reasoning: let me look
        tool_calls:
          - {name: look, arguments: {at: sky}}
          - {name: look, arguments_text: '{"at": "sk', id: call_x}
        usage: {input_tokens: 100, output_tokens: 20, cache_read_tokens: 64, reasoning_tokens: 8}
      - text: rest
"""


def test_the_first_pattern_that_matches_gives_the_steps() -> None:
    script = Script.from_yaml(GOOD, "good.yaml")
    assert script.steps_for("HumanEval/12")[0].text == "a teen"
    assert script.steps_for("HumanEval/2")[1].text == "rest"
    assert script.steps_for("other")[0].text == "default"


def test_a_script_survives_as_plain_data() -> None:
    script = Script.from_yaml(GOOD, "good.yaml")
    assert Script.model_validate(script.model_dump(mode="json")) == script


def test_a_task_without_steps_is_refused_by_its_id() -> None:
    script = Script.from_yaml("tasks: [{match: 'a*', steps: [{text: x}]}]", "s.yaml")
    with pytest.raises(InvalidInput, match="no steps for task 'b'.*'a\\*'"):
        script.steps_for("b")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("steps:\n  - text: a\n  - txt: b\n", "script s.yaml, line 3: steps[2].txt: no such key"),
        ("steps:\n  - text: a\n  - {}\n", "script s.yaml, line 3: steps[2]: a step says something"),
        ("steps:\n  - text: 5\n", "script s.yaml, line 2: steps[1].text: Input should be a valid string"),
        (
            "steps:\n  - tool_calls:\n      - arguments: {}\n",
            "script s.yaml, line 3: steps[1].tool_calls[1].name: Field required",
        ),
        (
            "steps:\n  - text: a\n    usage:\n      input_tokens: 5\n      output_tokens: -1\n",
            "script s.yaml, line 5: steps[1].usage.output_tokens:",
        ),
        (
            "steps:\n  - text: a\n    usage: {input_tokens: 5, output_tokens: 1, cache_read_tokens: 6}\n",
            "script s.yaml, line 3: steps[1].usage: input_tokens include the cached ones",
        ),
        (
            "steps:\n  - text: a\n    finish_reason: done\n",
            "script s.yaml, line 3: steps[1].finish_reason:",
        ),
        (
            "steps:\n  - tool_calls:\n    - {name: f, arguments: {x: .nan}}\n",
            "script s.yaml, line 3: steps[1].tool_calls[1]: arguments hold a number that JSON",
        ),
        (
            "steps:\n  - tool_calls:\n    - {name: f, arguments: {}, arguments_text: ''}\n",
            "exclude each other",
        ),
        (
            "steps:\n  - tool_calls:\n    - {name: f, id: a}\n    - {name: f, id: a}\n",
            "two tool calls of one step have the same id",
        ),
        ("steps:\n  - text: a\n    text: b\n", "script s.yaml, line 3: key 'text' stands here twice"),
        ("steps: []\n", "script s.yaml, line 1: steps: no step"),
        ("{}\n", "a script has steps, or tasks with steps"),
        ("", "script s.yaml: is empty"),
        ("steps: [", "script s.yaml: is not YAML"),
        ('steps:\n  - text: "\\ud800"\n', "script s.yaml, line 2: half a surrogate pair"),
        ("steps: 2001-99-99\n", "script s.yaml: is not YAML"),
        ("[" * 1000, "script s.yaml: is not YAML"),
        ("steps: &loop [*loop]\n", "script s.yaml, line 1: steps[1]"),
        ("- text: a\n", "script s.yaml, line 1: document:"),
        ("steps:\n  - text: !!python/object:os.system x\n", "script s.yaml: is not YAML"),
    ],
)
def test_a_mistake_names_file_line_and_key(text: str, says: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        Script.from_yaml(text, "s.yaml")
    assert says in caught.value.message


def test_every_mistake_is_named_at_once() -> None:
    with pytest.raises(InvalidInput) as caught:
        Script.from_yaml("steps:\n  - txt: a\n  - text: 1\n", "s.yaml")
    assert "line 2" in caught.value.message
    assert "line 3" in caught.value.message


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="absent.yaml: cannot be read"):
        Script.load(tmp_path / "absent.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"steps: [{text: \xe9}]")
    with pytest.raises(InvalidInput, match="latin.yaml: cannot be read"):
        Script.load(tmp_path / "latin.yaml")


@given(st.text())
def test_any_text_is_a_script_or_an_invalid_input(text: str) -> None:
    try:
        Script.from_yaml(text, "s.yaml")
    except InvalidInput as error:
        assert "s.yaml" in error.message

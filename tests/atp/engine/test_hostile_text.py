"""Text that no database, model API or terminal takes as it is: nothing breaks, and it is kept."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from atp.protocol.binding import ToolResult
from atp.protocol.environment import UserText
from atp.protocol.json_text import decode, encode
from atp.protocol.trace import TaskTrace
from atp.protocol.unicode_text import well_formed
from tests.atp.engine.experiments import Lab
from tests.foreign_endpoint import ForeignEndpoint, completion, replying

HARNESSES = ["thinloop", "langgraph", "openai-agents", "smolagents", "crewai", "google-adk"]
HALF = "\ud83d"
"""Half of the surrogate pair of an emoji."""
SCRIPT = """
steps:
- tool_calls:
  - {name: statement, arguments: {characters: 3, code_point: 0xd83d}}
- text: "done \u2713 \U0001f600"
"""


@pytest.mark.parametrize("harness", HARNESSES)
async def test_half_of_a_surrogate_pair_in_a_tool_result_ends_nothing_and_is_kept(
    harness: str, lab: Lab, tmp_path: Path
) -> None:
    script = tmp_path / "half.yaml"
    script.write_text(SCRIPT, encoding="utf-8")
    outcome = await lab.run(harness=harness, models=[f"scripted/file:{script}"], tasks=("ledger-000",))
    [attempt] = outcome["attempts"]
    assert (attempt["status"], attempt["final_answer"]) == ("completed", "done \u2713 \U0001f600")
    [call] = attempt["tool_calls"]
    assert call["result"] == f"###{HALF}"


async def test_an_error_text_is_kept_with_u_fffd_for_what_no_column_takes(lab: Lab, tmp_path: Path) -> None:
    script = tmp_path / "half.yaml"
    text = """steps:
- tool_calls: [{name: fail, arguments_text: '{"message": "half \\ud83d and \\u0000 nul"}'}]
- text: done
"""
    script.write_text(text, encoding="utf-8")
    outcome = await lab.run(models=[f"scripted/file:{script}"], tasks=("ledger-000",))
    [attempt] = outcome["attempts"]
    [call] = attempt["tool_calls"]
    assert call["arguments"] == {"message": f"half {HALF} and \0 nul"}
    assert call["error"] == "half \ufffd and \0 nul"


@pytest.mark.parametrize("harness", HARNESSES)
async def test_a_model_that_writes_half_of_a_surrogate_pair_harms_its_own_attempt_at_most(
    harness: str, lab: Lab, foreign_endpoint: ForeignEndpoint
) -> None:
    asked = "ledger-001"  # a dialogue: what the model says goes out again with the next line
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    foreign_endpoint.respond = lambda request, number: replying(
        completion(f"r{number}", text=f"half {HALF}", usage=usage)
    )
    outcome = await lab.run(
        harness=harness, models=["openai/m"], base_url=foreign_endpoint.base_url, tasks=(asked,)
    )
    [attempt] = outcome["attempts"]
    # Some SDKs escape it as they send it back, others cannot send it.
    assert attempt["status"] in ("completed", "agent_error"), attempt["error"]
    assert attempt["score"] == 0.0
    assert attempt["turns"] >= 1


def test_what_a_model_reads_has_a_form_that_can_be_sent() -> None:
    assert ToolResult(value=f"a{HALF}").text == "a\ufffd"
    assert ToolResult(error=f"a{HALF}").text == "a\ufffd"
    assert ToolResult(value={"a": HALF}).text == '{"a": "\ufffd"}'
    assert UserText(text=HALF).part.text == "\ufffd"


def test_two_halves_that_follow_each_other_are_one_character() -> None:
    assert well_formed("\ud83d\ude00") == "\U0001f600"


@pytest.mark.parametrize("value", [HALF, [HALF, 2.0], {"k": HALF}, {HALF: 1}, "\0"])
def test_the_store_gives_back_what_it_was_given(value: object) -> None:
    given = decode(encode(value))
    assert given == value
    assert json.dumps(given) == json.dumps(value)


def test_a_trace_with_half_of_a_surrogate_pair_comes_back_from_the_store_as_it_was() -> None:
    trace = TaskTrace(final_answer=f"a{HALF}", native={"said": HALF})
    assert TaskTrace.model_validate(decode(encode(trace))) == trace
    without = decode(encode(trace, exclude={"final_answer"}))
    assert "final_answer" not in without


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
async def test_a_terminal_that_cannot_show_a_character_shows_its_escape(
    encoding: str, lab: Lab, tmp_path: Path
) -> None:
    script = tmp_path / "half.yaml"
    script.write_text(SCRIPT, encoding="utf-8")
    outcome = await lab.run(models=[f"scripted/file:{script}"], tasks=("ledger-000",))
    [attempt] = outcome["attempts"]
    for arguments in (
        ["results", "--attempts"],
        ["results", "--json"],
        ["trace", attempt["run_id"]],
        ["trace", attempt["run_id"], "--json"],
    ):
        done = subprocess.run(
            [sys.executable, "-m", "atp.cli", *arguments, "--db", lab.url],
            env=os.environ | {"PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"},
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()
        shown = done.stdout.decode(encoding)
        if "--json" in arguments:
            assert "done \u2713 \U0001f600" in json.dumps(json.loads(shown), ensure_ascii=False)

"""What commands print holds no secret: tables, JSON, errors, progress, tracebacks, `--env-file`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from atp.engine.home import home
from tests.canaries import KNOWN, LEFT, SHAPED, contents, places_of


def atp(folder: Path, *arguments: str, **environment: str) -> tuple[int, str]:
    """Exit code, and all that was printed."""
    done = subprocess.run(
        [sys.executable, "-m", "atp.cli", *arguments],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("resolve", "ledger", "thinloop", f"openai/{SHAPED}"),
        ("resolve", "ledger", "thinloop", f"openai/{SHAPED}", "--json"),
        ("resolve", "ledger", SHAPED, "openai/x"),
        ("resolve", "ledger", "thinloop", "openai/x", "--base-url", f"http://ada:{KNOWN}@host/v1"),
        ("run", "-b", "ledger", "-H", "thinloop", "-m", "openai/x", "--max-turns", SHAPED),
        ("run", "-b", "ledger", "-H", "thinloop", "-m", "openai/x", "-o", f"api_key={KNOWN}"),
        ("run", "-b", "ledger", "-H", "thinloop", "-m", "openai/x", "-o", f"harness.{SHAPED}=x"),
        ("results", f"exp-{KNOWN}", "--db", f"sqlite:///{SHAPED}.db"),
    ],
    ids=lambda arguments: " ".join(arguments)[:40].replace(SHAPED, "S").replace(KNOWN, "K"),
)
def test_no_message_gives_a_secret_away(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    _, said = atp(tmp_path, *arguments, CANARY_TOKEN=KNOWN)
    assert said
    assert [secret for secret in LEFT if secret in said] == []


def test_the_doctor_says_nothing_of_a_secret_in_the_name_of_a_folder(tmp_path: Path) -> None:
    _, said = atp(tmp_path, "doctor", "--json", CANARY_TOKEN=KNOWN, ATP_HOME=str(tmp_path / SHAPED / KNOWN))
    assert "[redacted:openai-key]/[redacted:CANARY_TOKEN]" in said
    assert [secret for secret in LEFT if secret in said] == []


def test_an_uncaught_exception_is_shown_without_its_secret(tmp_path: Path) -> None:
    program = (
        "import os, sys; from atp.cli import app\n"
        f"def fail(**_): raise RuntimeError(f'{SHAPED} and ' + os.environ['CANARY_TOKEN'])\n"
        "app.app = fail\napp.main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "CANARY_TOKEN": KNOWN},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "RuntimeError: [redacted:openai-key] and [redacted:CANARY_TOKEN]" in done.stderr


def test_a_run_with_an_environment_file_leaves_nothing_of_its_secrets(tmp_path: Path) -> None:
    folder = tmp_path / "lab"
    folder.mkdir()
    variables = tmp_path / "variables"
    variables.write_text(f"CANARY_PASSWORD={KNOWN}\n", encoding="utf-8")
    script = tmp_path / "script.yaml"
    script.write_text(f"steps:\n- text: 'it is {KNOWN} and {SHAPED}'\n", encoding="utf-8")
    code, said = atp(
        folder, "run", "-b", "ledger", "-H", "thinloop", "-m", f"scripted/file:{script}", "--task=ledger-000",
        "-o", f"harness.error={KNOWN} was refused", "--retries", "0", "--env-file", str(variables), "--json",
    )  # fmt: skip
    assert code == 1
    assert "[redacted:CANARY_PASSWORD] was refused" in said
    experiment = said.partition("experiment ")[2].partition(":")[0]
    found = {**contents([folder, home() / "logs" / experiment]), "said": said.encode()}
    assert places_of(LEFT, found) == []

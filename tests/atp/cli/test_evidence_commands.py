"""`atp evidence` and `atp validate evidence` as other programs see them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from atp.protocol.evidence import checked
from tests.atp.protocol.evidence.evidence_documents import CASE, RUN, as_bytes, document


def atp(folder: Path, *arguments: str, given: bytes = b"", **environment: str) -> tuple[int, bytes, str]:
    """Run a command: exit code, standard output, standard error."""
    done = subprocess.run(
        [sys.executable, "-m", "atp.cli", *arguments],
        cwd=folder,
        env={**os.environ, **environment},
        input=given,
        capture_output=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr.decode()


def test_the_document_of_a_run_is_printed_the_same_every_time_and_is_valid(tmp_path: Path) -> None:
    pair = ("-b", "ledger", "-H", "thinloop", "-m", "scripted/oracle")
    code, out, err = atp(tmp_path, "run", *pair, "--task", "ledger-000", "--workers", "0", "--json")
    assert code == 0, err
    run_id = json.loads(out)["attempts"][0]["run_id"]
    code, first, err = atp(tmp_path, "evidence", run_id)
    assert code == 0, err
    assert checked(first.rstrip(b"\n"), run_id).valid
    assert atp(tmp_path, "evidence", run_id.removeprefix("run-")[:8], "--json")[:2] == (0, first)
    code, escaped, _ = atp(tmp_path, "evidence", run_id, PYTHONIOENCODING="ascii")
    assert (code, json.loads(escaped)) == (0, json.loads(first))
    assert atp(tmp_path, "validate", "evidence", "-", "--run", run_id, given=first)[:2] == (0, b"valid\n")


def test_a_run_that_is_not_there_is_refused_and_no_database_is_made(tmp_path: Path) -> None:
    code, out, err = atp(tmp_path, "evidence", "run-nowhere")
    assert (code, out) == (3, b"")
    assert "there is no database" in err
    assert list(tmp_path.iterdir()) == []


def test_a_valid_document_is_said_to_be_valid(tmp_path: Path) -> None:
    (tmp_path / "document.json").write_bytes(as_bytes(document()))
    code, out, _ = atp(
        tmp_path, "validate", "evidence", "document.json", "--run", RUN, "--case", CASE, "--json"
    )
    assert (code, json.loads(out)) == (0, {"valid": True, "problems": []})


def test_every_rule_that_a_document_breaks_is_named_with_its_place(tmp_path: Path) -> None:
    broken = document()
    broken["events"][0]["data"]["role"] = "\x1b[31mdeveloper"
    (tmp_path / "document.json").write_bytes(as_bytes(broken))
    code, out, _ = atp(tmp_path, "validate", "evidence", "document.json", "--json")
    assert code == 1
    [problem] = json.loads(out)["problems"]
    assert (problem["rule"], problem["where"]) == ("role", "/events/0/data/role")
    code, out, _ = atp(tmp_path, "validate", "evidence", "document.json")
    assert code == 1
    assert out.startswith(b"role: /events/0/data/role: ")
    assert b"\x1b" not in out


def test_a_document_that_is_too_large_is_not_read_to_its_end(tmp_path: Path) -> None:
    with (tmp_path / "document.json").open("wb") as file:
        file.truncate(1 << 40)
    code, out, _ = atp(tmp_path, "validate", "evidence", "document.json")
    assert (code, out) == (1, b"size: (document): has more than 4194304 bytes\n")


def test_a_file_that_is_not_there_is_wrong_usage(tmp_path: Path) -> None:
    code, out, err = atp(tmp_path, "validate", "evidence", "nowhere.json")
    assert (code, out) == (2, b"")
    assert "nowhere.json" in err


def test_a_document_is_checked_where_a_target_serves_it(tmp_path: Path) -> None:
    asked: list[str | None] = []

    class Target(BaseHTTPRequestHandler):
        def do_GET(self) -> None:  # the name is that of http.server
            asked.append(self.headers["Authorization"])
            self.send_response(200)
            self.end_headers()
            self.wfile.write(as_bytes(document()))

        def log_message(self, format: str, *args: object) -> None:
            """Nothing on standard error."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Target) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/v1/evidence/{RUN}"
        check = ("validate", "evidence", url, "--run", RUN, "--token-variable", "TARGET_TOKEN")
        code, out, err = atp(tmp_path, *check, TARGET_TOKEN="quartz-lantern-42")
        server.shutdown()
    assert (code, out) == (0, b"valid\n"), err
    assert asked == ["Bearer quartz-lantern-42"]


def test_a_token_whose_variable_is_not_set_is_named_before_anything_is_fetched(tmp_path: Path) -> None:
    url = "http://127.0.0.1:9/v1/evidence/run-a"
    code, out, err = atp(tmp_path, "validate", "evidence", url, "--token-variable", "NO_SUCH_TOKEN")
    assert (code, out) == (3, b"")
    assert "NO_SUCH_TOKEN" in err

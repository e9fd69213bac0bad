"""Canaries planted wherever a secret may turn up: none is left in any byte of what a run leaves.

What model and tools exchange is not touched: the tool gets the true argument, the model the true result.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from ledger.benchmark import LedgerEnvironment, LinesUser

from atp.engine.home import home
from atp.protocol.environment import UserText, UserTurn
from atp.store.store import Store
from tests.atp.engine.experiments import Lab
from tests.canaries import KNOWN, LEFT, NAMED, SHAPED, contents, places_of
from tests.foreign_endpoint import ForeignEndpoint, ForeignReply, ForeignRequest, completion, replying

HARNESSES: dict[str, dict[str, Any]] = {
    "thinloop": {},
    "langgraph": {"python": Path(sys.executable)},
    "openai-agents": {"python": Path(sys.executable)},
    "smolagents": {"python": Path(sys.executable)},
    "crewai": {},
    "google-adk": {},
}
EACH = pytest.mark.parametrize("harness", HARNESSES)
SCRIPT = f"""
steps:
- tool_calls: [{{name: open_account, arguments: {{owner: {{name: 'Ada {SHAPED} {KNOWN}'}}, currency: EUR}}}}]
- tool_calls: [{{name: fail, arguments: {{message: 'no: {KNOWN}, password="{NAMED}"'}}}}]
- text: 'done with {SHAPED} and {KNOWN}, api_key="{NAMED}"'
- text: 'again {SHAPED}'
"""


class Planted:
    """What the patched benchmark was given and gave."""

    def __init__(self) -> None:
        self.arguments: list[dict[str, Any]] = []
        self.result = {
            "api_key": NAMED,
            "note": f"see {SHAPED} or {KNOWN}",
            "Authorization": f"Bearer {KNOWN}",
        }


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> Planted:
    """Canaries in the environment of the engine, in prompt, user lines and results of the ledger."""
    state = Planted()
    execute = LedgerEnvironment.execute

    async def executed(self: LedgerEnvironment, name: str, arguments: dict[str, Any]) -> Any:
        state.arguments.append(arguments)
        if name == "open_account":
            return state.result
        return await execute(self, name, arguments)

    async def opened(self: LinesUser) -> UserTurn:
        self._left.pop(0)
        return UserText(text=f"I am Ada, my password is password='{NAMED}', token {KNOWN}")

    monkeypatch.setenv("CANARY_TOKEN", KNOWN)
    monkeypatch.setattr(LedgerEnvironment, "execute", executed)
    monkeypatch.setattr(LedgerEnvironment, "system_prompt", f"Use {SHAPED} and {KNOWN}.")
    monkeypatch.setattr(LinesUser, "open", opened)
    return state


def sent_key(request: ForeignRequest) -> str:
    return request.headers["authorization"].removeprefix("Bearer ")


def left_by(lab: Lab, tmp_path: Path, outcome: dict[str, Any]) -> list[tuple[str, str]]:
    found = dict(contents([tmp_path / "lab", home() / "logs" / outcome["experiment"]]))
    found["results"] = json.dumps(outcome, ensure_ascii=False).encode()
    with Store.open(lab.url, readonly=True) as store:
        found["spans"] = repr(
            [(store.spans(a["run_id"]), store.bodies(a["run_id"])) for a in outcome["attempts"]]
        ).encode()
    assert len(found) > 5
    return places_of(LEFT, found)


@pytest.fixture
def canary_lab(tmp_path: Path) -> Lab:
    (tmp_path / "lab").mkdir()
    return Lab(tmp_path / "lab")


@EACH
async def test_no_canary_is_left_by_a_run_and_the_tool_got_the_true_argument(
    canary_lab: Lab, tmp_path: Path, planted: Planted, harness: str
) -> None:
    script = tmp_path / "script.yaml"
    script.write_text(SCRIPT, encoding="utf-8")
    outcome = await canary_lab.run(
        harness=harness,
        models=[f"scripted/file:{script}"],
        tasks=("ledger-000", "ledger-001"),
        **HARNESSES[harness],
    )
    assert [attempt["status"] for attempt in outcome["attempts"]] == ["completed"] * 2
    for attempt in outcome["attempts"]:
        calls = attempt["tool_calls"]
        assert calls[0]["arguments"]["owner"]["name"] == "Ada [redacted:openai-key] [redacted:CANARY_TOKEN]"
        assert calls[0]["result"] == {
            "api_key": "[redacted:api-key]",
            "note": "see [redacted:openai-key] or [redacted:CANARY_TOKEN]",
            "Authorization": "[redacted:authorization]",
        }
        assert "[redacted:openai-key]" in attempt["final_answer"]
        # The four records were compared as they were, before redaction.
        assert attempt["checks"]["agree"] is True, attempt["checks"]["differences"]
    assert {json.dumps(a) for a in planted.arguments if "owner" in a} == {
        json.dumps({"owner": {"name": f"Ada {SHAPED} {KNOWN}"}, "currency": "EUR"})
    }
    assert left_by(canary_lab, tmp_path, outcome) == []


async def test_the_model_gets_the_true_result(
    canary_lab: Lab, tmp_path: Path, planted: Planted, foreign_endpoint: ForeignEndpoint
) -> None:
    arguments = json.dumps({"owner": {"name": KNOWN}, "currency": "EUR"})
    foreign_endpoint.replies = [
        replying(completion("chatcmpl-1", tool_calls=[("call_1", "open_account", arguments)])),
        replying(completion("chatcmpl-2", text=f"It is {SHAPED}.")),
    ]
    outcome = await canary_lab.run(
        models=["openai/x"], base_url=foreign_endpoint.base_url, tasks=("ledger-000",)
    )
    assert outcome["attempts"][0]["status"] == "completed", outcome["attempts"][0]["error"]
    second = foreign_endpoint.requests[1].raw.decode()
    assert NAMED in second and SHAPED in second and KNOWN in second
    assert left_by(canary_lab, tmp_path, outcome) == []


@EACH
async def test_a_provider_that_quotes_the_key_in_its_401_does_not_give_it_away(
    canary_lab: Lab,
    tmp_path: Path,
    harness: str,
    foreign_endpoint: ForeignEndpoint,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KNOWN)
    foreign_endpoint.respond = lambda request, number: ForeignReply(
        status=401,
        headers={"www-authenticate": f"Bearer {KNOWN}"},
        body={
            "error": {
                "message": f"Incorrect API key provided: {sent_key(request)}, or {SHAPED}.",
                "type": "invalid_request_error",
                "code": "invalid_api_key",
            }
        },
    )
    outcome = await canary_lab.run(
        harness=harness,
        models=["openai/x"],
        base_url=foreign_endpoint.base_url,
        tasks=("ledger-000",),
        **HARNESSES[harness],
    )
    [attempt] = outcome["attempts"]
    assert (attempt["status"], attempt["error"]["fault"]) == ("infra_error", "user")
    assert "[redacted:OPENAI_API_KEY], or [redacted:openai-key]." in attempt["error"]["message"]
    assert left_by(canary_lab, tmp_path, outcome) == []


@pytest.mark.parametrize("workers", [1, 0], ids=["process worker", "in-memory link"])
@pytest.mark.parametrize(
    ("option", "tool"), [("error", None), (None, "crash")], ids=["a harness raises", "a tool raises"]
)
async def test_an_exception_that_quotes_a_secret_is_stored_without_it(
    canary_lab: Lab, tmp_path: Path, planted: Planted, workers: int, option: str | None, tool: str | None
) -> None:
    said = f"refused {SHAPED} of {KNOWN} (password={NAMED}-2024)"
    script = tmp_path / "script.yaml"
    script.write_text(
        f"steps:\n- tool_calls: [{{name: crash, arguments: {{message: '{said}'}}}}]\n- text: done\n",
        encoding="utf-8",
    )
    outcome = await canary_lab.run(
        models=[f"scripted/file:{script}"],
        tasks=("ledger-000",),
        workers=workers,
        harness_options={option: said} if option else {},
    )
    [attempt] = outcome["attempts"]
    assert attempt["error"]["message"].endswith(
        "refused [redacted:openai-key] of [redacted:CANARY_TOKEN] (password=[redacted:password])"
    )
    assert left_by(canary_lab, tmp_path, outcome) == []


async def test_what_a_worker_prints_is_in_its_log_without_secrets(
    canary_lab: Lab, tmp_path: Path, planted: Planted
) -> None:
    outcome = await canary_lab.run(
        tasks=("ledger-000",),
        harness_options={"print": f"key {SHAPED}\n" * 3, "write_fd1": f"and {KNOWN} \x00\xff\n"},
    )
    log = (home() / "logs" / outcome["experiment"] / "thinloop-1.log").read_bytes()
    assert log.count(b"key [redacted:openai-key]\n") == 3
    assert b"and [redacted:CANARY_TOKEN] \x00\xc3\xbf\n" in log
    assert left_by(canary_lab, tmp_path, outcome) == []


async def test_a_flood_of_prints_does_not_stall_the_attempt(canary_lab: Lab, planted: Planted) -> None:
    outcome = await canary_lab.run(tasks=("ledger-000",), harness_options={"print": f"{KNOWN} x\n" * 20_000})
    log = home() / "logs" / outcome["experiment"] / "thinloop-1.log"
    assert outcome["attempts"][0]["status"] == "completed"
    assert log.read_bytes().count(b"[redacted:CANARY_TOKEN] x\n") == 20_000

"""`atp verify` as another program sees it."""

from __future__ import annotations

from pathlib import Path

import pytest
import thinloop.card

from tests.atp.cli.test_commands import atp, atp_json

PAIR = ("verify", "-b", "ledger", "-H", "thinloop")


def test_a_pair_is_checked_with_its_harness_and_its_benchmark() -> None:
    outcome = atp_json(*PAIR)
    [pair] = outcome["pairs"]
    assert (pair["benchmark"], pair["harness"], pair["data"]) == ("ledger", "thinloop", "real")
    assert {check["name"].split(".")[0] for check in pair["checks"]} == {"harness", "benchmark", "pair"}
    assert all(check["passed"] and check["detail"] for check in pair["checks"])
    assert (outcome["passed"], outcome["failed"]) == (len(pair["checks"]), 0)


def test_a_broken_rule_is_named_and_the_command_exits_with_1(monkeypatch: pytest.MonkeyPatch) -> None:
    card = thinloop.card.CARD.model_copy(update={"extra_calls_at_limit": 1})
    monkeypatch.setattr(thinloop.card, "CARD", card)
    run = atp(*PAIR)
    assert run.returncode == 1
    assert "harness.turn-limit" in run.stdout
    assert "3 model calls, where 4 are allowed" in " ".join(run.stdout.split())
    assert "verify: harness thinloop" in run.stderr


def test_what_is_missing_is_said_before_anything_is_checked(tmp_path: Path) -> None:
    run = atp("verify", "-b", "ledger", "-H", "smolagents", "--json", ATP_HOME=str(tmp_path))
    assert (run.returncode, run.stdout) == (3, "")
    assert "atp env create smolagents" in run.stderr


def test_an_unknown_name_is_wrong_usage() -> None:
    assert atp("verify", "-b", "ledgre").returncode == 2

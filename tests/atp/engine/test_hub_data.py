"""Splits of hub data sets: fetched by the `datasets` library at the pinned commit, or refused by name."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path

import pytest

from atp.engine import datasets
from atp.engine.datasets import DataInfo
from atp.engine.hub.environment import recipe
from atp.engine.virtual_environment import make, python_in
from atp.protocol.cards import HubSource
from atp.protocol.errors import InfrastructureError, InvalidInput, NotReady
from atp.protocol.hub_rows import ROWS, read_rows
from tests.local_hub import LocalHub

SOURCE = HubSource(
    name="tiny",
    dataset="someone/tiny",
    config="main",
    split="test",
    revision="0123456789abcdef0123456789abcdef01234567",
    license="MIT",
    rows=3,
)
TABLE = [
    {"question": "How many? – “Three”\n", "answer": "#### 1,234", "level": 1},
    {"question": "", "answer": "\u2028", "level": None},
    {"question": "三つ", "answer": "x", "level": 3},
]
AGAIN = "atp data get tiny"


@pytest.fixture
def hub(hub: LocalHub) -> LocalHub:
    hub.hold(SOURCE, b"".join(json.dumps(row).encode() + b"\n" for row in TABLE))
    return hub


def get(source: HubSource = SOURCE) -> DataInfo:
    return asyncio.run(datasets.get(source))


def kept(tmp_path: Path) -> list[str]:
    """The names of what lies in the folder of data, locks aside."""
    return [entry.name for entry in (tmp_path / "home" / "data").iterdir() if entry.suffix != ".lock"]


def test_a_fetched_split_is_plain_json_lines_with_all_its_rows_in_order(hub: LocalHub) -> None:
    info = get()
    assert info.path is not None
    lines = (info.path / ROWS).read_text(encoding="utf-8").split("\n")
    assert [json.loads(line) for line in lines[:-1]] == TABLE
    assert read_rows(info.path, SOURCE) == TABLE
    assert datasets.problems(info) == ()
    assert (info.origin, info.revision) == ("someone/tiny (main, test)", SOURCE.revision)
    asked = len(hub.asked)
    assert get() == info
    assert len(hub.asked) == asked  # what is here is not asked for again
    with (info.path / ROWS).open("a", encoding="utf-8") as rows:
        rows.write("\n")
    [problem] = datasets.problems(info)
    assert "rows.jsonl was changed" in problem and AGAIN in problem
    with pytest.raises(InvalidInput, match=f"was changed; remove .* run `{AGAIN}`"):
        read_rows(info.path, SOURCE)


def test_another_number_of_rows_is_refused_and_nothing_kept(hub: LocalHub, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"has 3 rows, and not the 1319 that are pinned"):
        get(SOURCE.model_copy(update={"rows": 1319}))
    assert kept(tmp_path) == []


def test_a_missing_data_set_is_named(hub: LocalHub, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=f"has no data set 'someone/other', .* HF_TOKEN, .*{AGAIN}"):
        get(SOURCE.model_copy(update={"dataset": "someone/other"}))
    assert kept(tmp_path) == []


def test_a_gated_data_set_asks_for_its_terms_and_a_token(
    hub: LocalHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.repositories[SOURCE.dataset].token = "hf_right"
    with pytest.raises(NotReady, match=f"accept them at {hub.url}/datasets/someone/tiny, set HF_TOKEN"):
        get()
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    with pytest.raises(NotReady, match="set HF_TOKEN") as refused:
        get()
    assert "hf_wrong" not in refused.value.message
    monkeypatch.setenv("HF_TOKEN", "hf_right")
    assert get().path is not None


def test_a_revision_the_hub_does_not_have_is_named(hub: LocalHub) -> None:
    revision = "f" * 40
    with pytest.raises(InvalidInput, match=f"does not give someone/tiny at revision {revision}"):
        get(SOURCE.model_copy(update={"revision": revision}))


@pytest.mark.parametrize(
    ("wrong", "there"),
    [
        ({"config": "socratic"}, r"config 'socratic', .*\['main'\]"),
        ({"split": "dev"}, r"split 'dev' .*'test'"),
    ],
)
def test_a_config_or_split_the_data_set_does_not_have_is_named_with_those_it_has(
    hub: LocalHub, wrong: dict[str, str], there: str
) -> None:
    with pytest.raises(InvalidInput, match=there):
        get(SOURCE.model_copy(update=wrong))


def test_a_data_set_that_is_a_script_is_refused(hub: LocalHub) -> None:
    held = hub.repositories[SOURCE.dataset]
    held.files = {"README.md": b"# A script\n", "tiny.py": b"raise SystemExit\n"}
    with pytest.raises(InvalidInput, match="Dataset scripts are no longer supported"):
        get()


@pytest.mark.parametrize("endpoint", ["http://127.0.0.1:1", "http://user:secret@127.0.0.1:1"])
def test_a_hub_that_cannot_be_reached_is_found_out_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, endpoint: str
) -> None:
    monkeypatch.setenv("ATP_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_ENDPOINT", endpoint)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    with pytest.raises(
        InfrastructureError, match=f"http://127.0.0.1:1 cannot be reached.*{AGAIN}"
    ) as refused:
        get()
    assert "secret" not in refused.value.message
    assert [entry.name for entry in (tmp_path / "home").iterdir()] == ["data"]


def test_a_hub_that_fails_is_named(hub: LocalHub) -> None:
    hub.failing = True
    with pytest.raises(InfrastructureError, match=f"{hub.url} answers 503"):
        get()
    assert len(hub.asked) == 1


def test_an_endpoint_that_is_no_url_is_refused(hub: LocalHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "not a hub")
    with pytest.raises(InvalidInput, match="HF_ENDPOINT"):
        get()


def test_offline_mode_asks_nobody_and_says_what_is_not_kept(
    hub: LocalHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(NotReady, match=f"HF_HUB_OFFLINE is set .* unset it and type again: {AGAIN}"):
        get()
    assert hub.asked == []


def test_offline_mode_takes_the_pinned_commit_out_of_the_librarys_cache_and_no_other(
    hub: LocalHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library gives what it built last, whatever revision it is asked for."""
    python = python_in(asyncio.run(make(recipe(AGAIN))))
    load = f"import datasets; datasets.load_dataset({SOURCE.dataset!r}, 'main', revision={SOURCE.revision!r})"
    subprocess.run([python, "-I", "-c", load], check=True, capture_output=True)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    hub.asked.clear()
    with pytest.raises(NotReady, match=f"the library gave commit {SOURCE.revision}"):
        get(SOURCE.model_copy(update={"revision": "f" * 40}))
    assert read_rows(get().path, SOURCE) == TABLE
    assert hub.asked == []

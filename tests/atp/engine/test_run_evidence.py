"""The evidence of stored runs: made once from what was seen, and the same bytes from then on."""

from __future__ import annotations

import hashlib
import json
import struct
from pathlib import Path
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from atp.engine.evidence import case_id, run_evidence
from atp.protocol.errors import UsageError
from atp.protocol.evidence import checked
from atp.protocol.spans import SpanKind
from atp.store.store import Store
from tests.atp.engine.experiments import Lab
from tests.atp.store.store_samples import running, span_end, span_start

ONE: dict[str, Any] = {"tasks": ("ledger-000",), "workers": 0}
SCRIPT = "steps:\n- tool_calls: [{name: nowhere, arguments: {a: 1}}]\n- text: Done.\n"
NOT_ENDED = "has not ended"

# Vectors: the samples of RFC 8785 and the testdata of cyberphone/json-canonicalization.
DIGESTS = [
    ("{}", "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"),
    ('{"a":1}', "015abd7f5cc57a2dd94b7590f04ad8084273905ee33ec5cebeae62276a97f862"),
    ('{"b":2,"a":1}', "43258cff783fe7036d8a43033f830adfc60ec037382473548ac742b888292777"),
    (
        '{"tool":"search","arguments":{"q":"rent"}}',
        "8b66ea5d3b6a9701c04f97f239422feb7ed4ef020f68ae5d81a25ddc94874814",
    ),
    (
        '{"tool":"search","arguments":{"q":"rent","limit":10.0}}',
        "8d31ce3b01fefbb7753ec9217a7f574b9583ddab3a7fc37d2d27aff98212e1ca",
    ),
    (
        '{"tool":"search","arguments":{"q":"rent","limit":10}}',
        "8d31ce3b01fefbb7753ec9217a7f574b9583ddab3a7fc37d2d27aff98212e1ca",
    ),
    (
        r'{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
        r'"string":"€$\u000f\nA' + "'" + r'B\"\\\\\"/"}',
        "2d5e01a318d0f0879ab568c4be289c8b1f64ef8921a53c6277d5e069978baacb",
    ),
]
NUMBERS = [
    ("44b52d02c7e14af6", b"1e+23"),
    ("444b1ae4d6e2ef50", b"1e+21"),
    ("444b1ae4d6e2ef4e", b"999999999999999700000"),
    ("3eb0c6f7a0b5ed8c", b"9.999999999999997e-7"),
    ("becbf647612f3696", b"-0.0000033333333333333333"),
    ("0000000000000001", b"5e-324"),
    ("8000000000000000", b"0"),
]


async def evidence_of(lab: Lab, outcome: dict[str, Any]) -> bytes:
    """The document of a run's only attempt."""
    with Store.open(lab.url) as store:
        return await run_evidence(store, outcome["attempts"][0]["run_id"])


async def test_the_calls_and_the_answer_of_a_run_are_in_its_document(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    outcome = await lab.run(**ONE)
    [attempt] = outcome["attempts"]
    content = await evidence_of(lab, outcome)
    assert checked(content, attempt["run_id"]).problems == ()
    events = json.loads(content)["events"]
    calls = [event["data"] for event in events if event["type"] == "tool.call"]
    results = [event["data"] for event in events if event["type"] == "tool.result"]
    assert [(call["call_id"], call["name"], call["arguments"]) for call in calls] == [
        (call["id"], call["name"], call["arguments"]) for call in attempt["tool_calls"]
    ]
    assert [each["result"] for each in results] == [call["result"] for call in attempt["tool_calls"]]
    assert (events[0]["data"]["role"], events[-1]["data"]["role"]) == ("user", "assistant")
    assert events[-1]["data"]["text"] == attempt["final_answer"]


async def test_a_document_is_made_once_and_a_late_span_does_not_change_it(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    outcome = await lab.run(**ONE)
    run_id = outcome["attempts"][0]["run_id"]
    first = await evidence_of(lab, outcome)
    assert rfc8785.dumps(json.loads(first)) == first
    late = span_start(run_id, 7, kind=SpanKind.TOOL, name="late")
    with Store.open(lab.url) as store:
        await store.record({}, [late], [span_end(late)])
    assert await evidence_of(lab, outcome) == first


async def test_a_call_of_an_unknown_tool_is_told_once(tmp_path: Path) -> None:
    script = tmp_path / "script.yaml"
    script.write_text(SCRIPT, encoding="utf-8")
    lab = Lab(tmp_path)
    outcome = await lab.run(models=(f"scripted/file:{script}",), **ONE)
    events = json.loads(await evidence_of(lab, outcome))["events"]
    calls = [event["data"] for event in events if event["type"] == "tool.call"]
    assert [(call["name"], call["arguments"]) for call in calls] == [("nowhere", {"a": 1})]


async def test_a_run_that_nobody_watched_has_no_document(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    outcome = await lab.run(monitored=False, **ONE)
    with pytest.raises(UsageError, match="--no-monitor") as raised:
        await evidence_of(lab, outcome)
    assert raised.value.code == "evidence_unobserved"


async def test_a_run_that_has_not_ended_has_no_document_yet(tmp_path: Path) -> None:
    with Store.open(Lab(tmp_path).url) as store:
        await running(store, ["run-a"])
        with pytest.raises(UsageError, match=NOT_ENDED) as raised:
            await run_evidence(store, "run-a")
    assert raised.value.code == "evidence_not_final"


async def test_a_secret_that_is_known_only_now_is_not_in_the_document(tmp_path: Path) -> None:
    script = tmp_path / "script.yaml"
    arguments = "{owner: {name: quartz-lantern-42}, currency: EUR}"
    script.write_text(
        f"steps:\n- tool_calls: [{{name: open_account, arguments: {arguments}}}]\n"
        "- tool_calls: [{name: fail, arguments: {message: 'no quartz-lantern-42'}}]\n"
        "- text: It was quartz-lantern-42.\n",
        encoding="utf-8",
    )
    lab = Lab(tmp_path)
    outcome = await lab.run(models=(f"scripted/file:{script}",), **ONE)
    with Store.open(lab.url) as store:
        store.redactor.learn("TOKEN", "quartz-lantern-42")
        content = await run_evidence(store, outcome["attempts"][0]["run_id"])
    assert b"quartz" not in content
    assert content.count(b"[redacted:TOKEN]") >= 3


@given(st.text(), st.none() | st.text(), st.text(st.characters(exclude_categories=["Cs"]), max_size=300))
def test_every_task_has_a_case_id_of_its_form(benchmark: str, revision: str | None, task_id: str) -> None:
    made = case_id(benchmark, revision, task_id)
    document = {"case_id": made}
    assert "/case_id" not in {problem.where for problem in checked(json.dumps(document).encode()).problems}


def test_a_case_id_has_the_words_of_the_task_and_the_digest_of_where_it_is_from() -> None:
    digest = hashlib.sha256(b'["humaneval","1","HumanEval/0"]').hexdigest()
    assert case_id("humaneval", "1", "HumanEval/0") == f"case-humaneval-0-{digest[:12]}"
    assert case_id("humaneval", "1", "humaneval-0") != case_id("humaneval", "1", "HumanEval/0")


@pytest.mark.parametrize(("text", "digest"), DIGESTS)
def test_the_canonical_form_has_the_digest_that_is_known_of_it(text: str, digest: str) -> None:
    assert hashlib.sha256(rfc8785.dumps(json.loads(text))).hexdigest() == digest


@pytest.mark.parametrize(("bits", "text"), NUMBERS)
def test_a_number_has_one_canonical_form(bits: str, text: bytes) -> None:
    [number] = struct.unpack(">d", bytes.fromhex(bits))
    assert rfc8785.dumps(number) == text


def test_keys_are_ordered_by_their_utf16_units() -> None:
    assert rfc8785.dumps({"\ufb33": 1, "\U0001f600": 2}) == '{"\U0001f600":2,"\ufb33":1}'.encode()

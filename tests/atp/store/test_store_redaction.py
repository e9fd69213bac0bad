"""Nothing secret is written, and what named a body by its old digest still finds it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from atp.protocol.redaction import Redactor
from atp.protocol.spans import SpanEvent
from atp.protocol.trace import Grade
from atp.store.bodies import digest_of
from atp.store.store import Store
from tests.atp.store.store_samples import EXPERIMENT, ended, running, span_end, span_start, tool_call
from tests.canaries import KNOWN, LEFT, NAMED, SHAPED, contents, places_of


def opened(folder: Path) -> Store:
    return Store.open(f"sqlite:///{folder / 'atp.db'}", redactor=Redactor({"A_TOKEN": KNOWN}))


def body(value: object) -> tuple[str, bytes]:
    content = json.dumps(value, separators=(",", ":")).encode()
    return digest_of(content), content


async def test_a_list_of_messages_that_goes_on_after_a_secret_comes_back_whole(tmp_path: Path) -> None:
    first, second = body({"role": "user", "content": KNOWN}), body({"role": "assistant", "content": "fine"})
    head = body({"prev": None, "items": [first[0]]})
    tail = body({"prev": head[0], "items": [second[0]]})
    with opened(tmp_path) as store:
        await running(store, ["run-a"])
        await store.record(dict([first, head]), [span_start("run-a", bodies={"input.messages": head[0]})])
        await store.record(
            dict([second, tail]), (), [span_end(span_start("run-a"), bodies={"input.messages": tail[0]})]
        )
        [span] = store.spans("run-a")
        assert store.body(span.bodies["input.messages"]) == [
            {"role": "user", "content": "[redacted:A_TOKEN]"},
            {"role": "assistant", "content": "fine"},
        ]
    assert places_of([*LEFT, first[0], head[0], tail[0]], contents([tmp_path])) == []


async def test_attributes_events_names_and_errors_of_spans_are_redacted(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        await running(store, ["run-a"])
        start = replace(
            span_start("run-a"), name=f"call {SHAPED}", attributes={"x": [KNOWN], "api_key": NAMED}
        )
        end = replace(
            span_end(start),
            attributes=start.attributes,
            error_message=f"refused {SHAPED}",
            events=[SpanEvent("e", 1, {"http.request.header.cookie": NAMED, "usage.input_tokens": 7})],
        )
        await store.record({}, [start])
        [begun] = store.spans("run-a")
        await store.record({}, (), [end])
        [span] = store.spans("run-a")
    assert (
        begun.attributes == span.attributes == {"x": ["[redacted:A_TOKEN]"], "api_key": "[redacted:api-key]"}
    )
    assert (span.name, span.error_message) == ("call [redacted:openai-key]", "refused [redacted:openai-key]")
    assert dict(span.events[0].attributes) == {
        "http.request.header.cookie": "[redacted:cookie]",
        "usage.input_tokens": 7,
    }
    assert places_of(LEFT, contents([tmp_path])) == []


async def test_a_call_with_a_secret_is_the_same_when_it_happens_and_at_the_end(tmp_path: Path) -> None:
    call = tool_call(0).model_copy(update={"arguments": {"password": NAMED, "n": 2.0}, "result": [SHAPED]})
    with opened(tmp_path) as store:
        await running(store, ["run-a"])
        await store.record_call("run-a", 0, call, span_end(span_start("run-a")))
        await store.end_attempt("run-a", ended("run-a", tool_calls=(call,)))
        await store.add_grade(
            "run-a",
            Grade(reason=f"it said {KNOWN}", details={"secret": NAMED}, grader="g", grader_version="1"),
        )
        [row] = store.attempts(EXPERIMENT)
    assert row.trace is not None and row.grade is not None
    assert row.trace.redacted == ("tool_calls",)
    assert row.trace.tool_calls[0].arguments == {"password": "[redacted:password]", "n": 2.0}
    assert row.grade.reason == "it said [redacted:A_TOKEN]"
    assert places_of(LEFT, contents([tmp_path])) == []


async def test_a_large_body_is_redacted_before_it_becomes_a_file(tmp_path: Path) -> None:
    digest, content = body({"text": "x" * 200_000 + f" {SHAPED}"})
    with opened(tmp_path) as store:
        await running(store, ["run-a"])
        await store.record({digest: content}, [span_start("run-a", bodies={"b": digest})])
        [span] = store.spans("run-a")
        assert store.body(span.bodies["b"]) == {"text": "x" * 200_000 + " [redacted:openai-key]"}
    assert places_of(LEFT, contents([tmp_path])) == []


async def test_a_body_that_only_looks_like_a_list_is_redacted_too(tmp_path: Path) -> None:
    digest, content = body({"prev": KNOWN})
    known = body({"a": KNOWN})
    with opened(tmp_path) as store:
        await running(store, ["run-a"])
        await store.record(dict([known, (digest, content)]), [span_start("run-a", bodies={"b": digest})])
        [span] = store.spans("run-a")
        assert store.body(span.bodies["b"]) == {"prev": "[redacted:A_TOKEN]"}

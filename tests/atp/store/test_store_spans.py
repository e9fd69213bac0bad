"""Spans and bodies: what goes in comes out."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from atp.protocol.errors import StoreError
from atp.protocol.json_text import encode
from atp.protocol.spans import (
    ParentSource,
    SpanEnd,
    SpanEvent,
    SpanKind,
    SpanSink,
    SpanStart,
    SpanStatus,
    TraceReader,
)
from atp.store.bodies import INLINE_LIMIT, digest_of
from atp.store.sink import StoreSink
from atp.store.store import Store
from tests.atp.store.store_samples import NOW_NS, running, span_end, span_start

RUN = "run-a"

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
values = st.one_of(
    text,
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.booleans(),
    st.none(),
    st.lists(text, max_size=3),
)
attributes = st.dictionaries(text, values, max_size=5)
nanoseconds = st.integers(0, 2**62)
starts = st.builds(
    SpanStart,
    run_id=st.just(RUN),
    trace_id=st.text("0123456789abcdef", min_size=32, max_size=32),
    span_id=st.just("0" * 16),
    parent_id=st.none() | st.text("0123456789abcdef", min_size=16, max_size=16),
    parent_source=st.sampled_from(ParentSource),
    kind=st.sampled_from(SpanKind),
    name=text,
    start_ns=nanoseconds,
    attributes=attributes,
    bodies=st.dictionaries(text, st.text("0123456789abcdef", min_size=64, max_size=64), max_size=2),
)
ends = st.builds(
    SpanEnd,
    start=starts,
    end_ns=nanoseconds,
    status=st.sampled_from([SpanStatus.OK, SpanStatus.ERROR, SpanStatus.ABORTED]),
    attributes=attributes,
    bodies=st.dictionaries(text, st.text("0123456789abcdef", min_size=64, max_size=64), max_size=2),
    error_type=st.none() | text,
    error_message=st.none() | text,
    events=st.lists(st.builds(SpanEvent, text, nanoseconds, attributes), max_size=2).map(tuple),
)


def same(left: Any, right: Any) -> bool:
    """Equal, and of equal types throughout: 2 is not 2.0."""
    return repr(left) == repr(right)


async def test_every_span_comes_back_as_it_was_recorded(store: Store) -> None:
    await running(store, [RUN])

    @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
    @given(end=ends)
    def check(end: SpanEnd) -> None:
        end = replace(end, start=replace(end.start, span_id=f"{len(collected):016x}"))
        store.post_record({}, ends=[end])
        collected.append(end)

    collected: list[SpanEnd] = []
    await asyncio.to_thread(check)
    await store.flush()
    stored = {span.span_id: span for span in store.spans(RUN)}
    assert len(stored) == len(collected)
    for end in collected:
        span = stored[end.start.span_id]
        for name in ("run_id", "trace_id", "parent_id", "parent_source", "kind", "name", "start_ns"):
            assert getattr(span, name) == getattr(end.start, name)
        for name in ("end_ns", "status", "attributes", "bodies", "error_type", "error_message", "events"):
            assert same(getattr(span, name), getattr(end, name)), name


async def test_a_started_span_is_open_until_it_ends(store: Store) -> None:
    await running(store, [RUN])
    start = span_start(RUN)
    await store.record({}, [start])
    (opened,) = store.spans(RUN)
    assert (opened.status, opened.end_ns, opened.attributes) == (SpanStatus.OPEN, None, start.attributes)
    await store.record({}, ends=[span_end(start)])
    (closed,) = store.spans(RUN)
    assert (closed.status, closed.end_ns) == (SpanStatus.OK, NOW_NS + 1_000_000_000)
    assert closed.attributes["usage.output"] == 5


@pytest.mark.parametrize("together", [True, False])
async def test_a_late_start_does_not_overwrite_an_end(store: Store, together: bool) -> None:
    await running(store, [RUN])
    start = span_start(RUN)
    if together:
        await store.record({}, [start], [span_end(start)])
    else:
        await store.record({}, ends=[span_end(start)])
        await store.record({}, [start])
    (span,) = store.spans(RUN)
    assert span.status is SpanStatus.OK


async def test_the_first_end_of_a_span_counts(store: Store) -> None:
    await running(store, [RUN])
    start = span_start(RUN)
    await store.record({}, ends=[span_end(start), span_end(start, status=SpanStatus.ERROR)])
    await store.record({}, ends=[span_end(start, status=SpanStatus.ERROR)])
    (span,) = store.spans(RUN)
    assert span.status is SpanStatus.OK


async def test_open_spans_are_aborted_and_a_late_end_replaces_the_mark(store: Store) -> None:
    await running(store, [RUN])
    late, lost, done = (span_start(RUN, number) for number in (1, 2, 3))
    await store.record({}, [late, lost, done], [span_end(done)])
    assert await store.abort_open_spans(RUN, NOW_NS + 5) == 2
    await store.record({}, ends=[span_end(late)])
    spans = {span.span_id: span for span in store.spans(RUN)}
    assert spans[late.span_id].status is SpanStatus.OK
    assert spans[lost.span_id].status is SpanStatus.ABORTED
    assert (spans[lost.span_id].end_ns, spans[lost.span_id].error_type) == (NOW_NS + 5, "aborted")
    assert spans[done.span_id].status is SpanStatus.OK


async def test_spans_come_by_start_time(store: Store) -> None:
    await running(store, [RUN])
    late, early = span_start(RUN, 1, start_ns=NOW_NS + 1), span_start(RUN, 2)
    await store.record({}, [late, early])
    assert [span.span_id for span in store.spans(RUN)] == [early.span_id, late.span_id]


async def test_a_span_of_an_unknown_run_is_refused_and_takes_no_other_down(store: Store) -> None:
    await running(store, [RUN])
    good = [store.record({}, [span_start(RUN, number)]) for number in range(10)]
    bad = store.record({}, [span_start("run-unknown")])
    results = await asyncio.gather(*good, bad, return_exceptions=True)
    assert results[:10] == [None] * 10
    assert isinstance(results[10], StoreError)
    assert len(store.spans(RUN)) == 10


async def test_a_span_whose_end_says_open_is_refused(store: Store) -> None:
    await running(store, [RUN])
    with pytest.raises(StoreError, match="open"):
        await store.record({}, ends=[span_end(span_start(RUN), status=SpanStatus.OPEN)])


@pytest.mark.parametrize("value", [2**70, 2.0, 2, float("inf"), "a\u0000b", "\U0001f642", None])
async def test_a_body_keeps_its_value_exactly(store: Store, value: Any) -> None:
    content = encode({"value": value})
    await store.record({digest_of(content): content})
    assert same(store.body(digest_of(content)), {"value": value})


@pytest.mark.parametrize("size", [0, 1, 255, 256, INLINE_LIMIT, INLINE_LIMIT + 1, 10_000_000])
async def test_a_body_of_any_size_comes_back_byte_for_byte(store: Store, size: int) -> None:
    content = (b"The quick brown fox. " * (size // 21 + 1))[:size]
    await store.record({digest_of(content): content})
    assert store.body_bytes(digest_of(content)) == content


async def test_only_large_bodies_are_files_and_each_is_there_once(store: Store, tmp_path: Path) -> None:
    small, large = b"x" * INLINE_LIMIT, b"y" * (INLINE_LIMIT + 1)
    for _ in range(2):
        await store.record({digest_of(small): small, digest_of(large): large})
    files = [path for path in (tmp_path / "atp.db.bodies").rglob("*") if path.is_file()]
    assert files == [tmp_path / "atp.db.bodies" / digest_of(large)[:2] / digest_of(large)]


async def test_a_body_under_a_foreign_digest_is_refused(store: Store) -> None:
    with pytest.raises(StoreError, match="not its own"):
        await store.record({"0" * 64: b"something else"})


@pytest.mark.parametrize("name", ["../../etc/passwd", "", "A" * 64, "0" * 63])
async def test_what_is_no_digest_names_no_body(store: Store, name: str) -> None:
    with pytest.raises(StoreError, match="not the digest"):
        store.body(name)


async def test_a_missing_body_is_named(store: Store) -> None:
    with pytest.raises(StoreError, match="1" * 64) as raised:
        store.body("1" * 64)
    assert raised.value.code == "body_missing"


async def test_a_missing_item_of_a_list_is_named(store: Store) -> None:
    content = encode({"prev": None, "items": ["2" * 64]})
    await store.record({digest_of(content): content})
    with pytest.raises(StoreError, match="2" * 64):
        store.body(digest_of(content))


async def test_a_changed_body_file_is_noticed(store: Store, tmp_path: Path) -> None:
    content = b'"' + b"y" * INLINE_LIMIT + b'"'
    digest = digest_of(content)
    await store.record({digest: content})
    (tmp_path / "atp.db.bodies" / digest[:2] / digest).write_bytes(content.replace(b"y", b"z", 1))
    with pytest.raises(StoreError, match="changed"):
        store.body(digest)


async def test_a_list_body_comes_back_as_its_messages_however_long_its_chain(store: Store) -> None:
    bodies: dict[str, bytes] = {}
    previous: str | None = None
    for turn in range(1200):  # past Python's recursion limit of 1000
        message = encode({"role": "user", "turn": turn})
        chain = encode({"prev": previous, "items": [digest_of(message)]})
        previous = digest_of(chain)
        bodies |= {digest_of(message): message, previous: chain}
    await running(store, [RUN])
    start = span_start(RUN, bodies={"input": previous})
    await store.record(bodies, ends=[span_end(start)])
    expected = [{"role": "user", "turn": turn} for turn in range(1200)]
    assert previous is not None
    assert store.body(previous) == expected
    assert store.bodies(RUN)[previous] == expected


async def test_an_object_that_only_looks_like_a_list_body_stays_an_object(store: Store) -> None:
    value = {"prev": None, "items": ["hello"]}
    content = encode(value)
    await store.record({digest_of(content): content})
    assert store.body(digest_of(content)) == value


async def test_the_sink_makes_durable_what_it_was_handed(store: Store, url: str) -> None:
    await running(store, [RUN])
    sink: SpanSink = StoreSink(store)
    content = encode({"role": "user"})
    start = span_start(RUN, bodies={"input": digest_of(content)})
    sink.body(digest_of(content), content)
    sink.start(start)
    sink.end(replace(span_end(start), bodies=start.bodies))
    await sink.flush()
    with Store.open(url, readonly=True) as other:
        reader: TraceReader = other
        (span,) = reader.spans(RUN)
        assert reader.body(span.bodies["input"]) == {"role": "user"}


async def test_flush_of_a_sink_raises_what_was_refused_and_only_its_own(store: Store) -> None:
    await running(store, [RUN])
    bad, good = StoreSink(store), StoreSink(store)
    bad.start(span_start("run-unknown"))
    good.start(span_start(RUN))
    await good.flush()
    with pytest.raises(StoreError, match="1 records"):
        await bad.flush()
    await bad.flush()

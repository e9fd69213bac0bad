"""What is acknowledged is kept, whoever dies; who reads disturbs nobody."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from atp.protocol.errors import StoreError
from atp.store import writer
from atp.store.bodies import digest_of
from atp.store.store import Store
from tests.atp.store.store_samples import EXPERIMENT, cell, ended, grade, running, span_end, span_start

WRITER = """
import asyncio, sys
from atp.store.store import Store
from tests.atp.store.store_samples import span_end, span_start

async def main():
    store, run_id = Store.open(sys.argv[1]), sys.argv[2]
    for number in range(int(sys.argv[3])):
        start = span_start(run_id, number)
        await store.record({}, [start], [span_end(start)] if number % 2 else [])
        print(number, flush=True)
    store.close()

asyncio.run(main())
"""


@contextlib.contextmanager
def writing(url: str, run_id: str, count: int) -> Iterator[subprocess.Popen[str]]:
    """A process that records spans and prints the number of each once it is acknowledged."""
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, url, run_id, str(count)], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


async def test_sigkill_of_the_writing_process_loses_nothing_acknowledged(store: Store, url: str) -> None:
    await running(store, ["run-a"])
    with writing(url, "run-a", 1_000_000) as process:
        assert process.stdout is not None
        acknowledged = [int(process.stdout.readline()) for _ in range(100)]
        process.send_signal(signal.SIGKILL)
        acknowledged += [int(line) for line in process.stdout if line.endswith("\n")]
    kept = {int(span.span_id, 16): span for span in store.spans("run-a")}
    assert acknowledged == list(range(len(acknowledged)))
    assert kept.keys() >= set(acknowledged)
    assert all((kept[number].end_ns is not None) == bool(number % 2) for number in acknowledged)
    await store.record({}, [span_start("run-a", 2_000_000)])


async def test_two_processes_write_one_database(store: Store, url: str) -> None:
    await running(store, ["run-a", "run-b", "run-c"])
    with writing(url, "run-a", 150) as one, writing(url, "run-b", 150) as two:
        for number in range(150):
            await store.record({}, [span_start("run-c", number)])
        assert [await asyncio.to_thread(one.wait), await asyncio.to_thread(two.wait)] == [0, 0]
    assert [len(store.spans(run_id)) for run_id in ("run-a", "run-b", "run-c")] == [150, 150, 150]


async def test_results_in_a_loop_beside_a_live_writer_disturb_nothing(store: Store, url: str) -> None:
    runs = [f"run-{number:03}" for number in range(60)]
    await running(store, runs)
    seen: list[int] = []
    over = threading.Event()

    def results() -> None:
        while not over.is_set():
            with Store.open(url, readonly=True) as reader:
                (totals,) = reader.cell_totals(EXPERIMENT)
                rows = reader.attempts(EXPERIMENT)
                for row in rows:
                    assert (row.status is None) == (row.trace is None)
                    reader.spans(row.run_id)
                seen.append(totals.attempts)

    reading = asyncio.create_task(asyncio.to_thread(results))
    for run_id in runs:
        start = span_start(run_id)
        await store.record({}, [start], [span_end(start)])
        await store.end_attempt(run_id, ended(run_id))
        await store.add_grade(run_id, grade(1.0))
    while not seen and not reading.done():
        await asyncio.sleep(0.01)
    over.set()
    await reading
    assert seen == sorted(seen)
    (totals,) = store.cell_totals(cell().experiment_id)
    assert (totals.attempts, totals.graded, totals.score_sum) == (60, 60, 60.0)


async def test_a_posted_record_becomes_durable_without_anybody_waiting(store: Store, url: str) -> None:
    await running(store, ["run-a"])
    store.post_record({}, [span_start("run-a")])
    with Store.open(url, readonly=True) as reader:
        while not reader.spans("run-a"):
            await asyncio.sleep(0.005)


async def test_closing_writes_what_was_posted(url: str) -> None:
    with Store.open(url) as store:
        await running(store, ["run-a"])
        for number in range(5000):
            store.post_record({}, [span_start("run-a", number)])
    with Store.open(url, readonly=True) as reader:
        assert len(reader.spans("run-a")) == 5000


async def test_flush_and_close_raise_what_befell_records_nobody_waited_for(url: str) -> None:
    store = Store.open(url)
    await running(store, ["run-a"])
    store.post_record({}, [span_start("run-unknown")])
    store.post_record({}, [span_start("run-a")])
    with pytest.raises(StoreError, match="1 records"):
        await store.flush()
    await store.flush()
    store.post_record({}, [span_start("run-unknown")])
    with pytest.raises(StoreError, match="1 records"):
        store.close()


async def test_giving_up_a_wait_does_not_take_the_record_back(store: Store) -> None:
    await running(store, ["run-a"])
    waiting = asyncio.create_task(store.record({}, [span_start("run-a")]))
    await asyncio.sleep(0)
    waiting.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await waiting
    await store.flush()
    assert len(store.spans("run-a")) == 1


async def test_operations_keep_their_order(store: Store) -> None:
    await running(store, ["run-a"])
    results = await asyncio.gather(
        store.record({}, [span_start("run-a", 1)]),
        store.abort_open_spans("run-a"),
        store.record({}, [span_start("run-a", 2)]),
        store.abort_open_spans("run-a"),
    )
    assert list(results) == [None, 1, None, 1]


async def test_records_wait_where_the_queue_is_full(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    await running(store, ["run-a"])
    monkeypatch.setattr(writer, "HIGH_BYTES", 1 << 20)
    content = b"x" * (2 << 20)
    store.post_record({digest_of(content): content})
    assert store.pressure().bytes > 2 << 20
    await store.ready()
    assert store.pressure().bytes <= 1 << 19
    assert store.body_bytes(digest_of(content)) == content


async def test_a_body_file_that_cannot_be_written_fails_only_its_own_record(
    store: Store, tmp_path: Path
) -> None:
    await running(store, ["run-a"])
    (tmp_path / "atp.db.bodies").write_text("in the way", encoding="utf-8")
    large = b"x" * 100_000
    results = await asyncio.gather(
        store.record({digest_of(large): large}),
        store.record({}, [span_start("run-a")]),
        return_exceptions=True,
    )
    assert isinstance(results[0], StoreError)
    assert results[1] is None


async def test_whoever_waits_for_a_writer_that_ends_is_told_also_of_what_it_had_in_hand(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ends(*arguments: object) -> None:
        raise MemoryError("no more")

    # Closing waits for the thread, whose last act is to hand its error to the hook.
    monkeypatch.setattr(threading, "excepthook", lambda arguments: None)
    with Store.open(url) as store:
        await running(store, ["run-a"])
        monkeypatch.setattr(writer.Writer, "_write", ends)
        results = await asyncio.wait_for(
            asyncio.gather(
                *(store.record({}, [span_start("run-a", number)]) for number in range(3)),
                return_exceptions=True,
            ),
            10,
        )
        assert all(isinstance(result, StoreError) and "ended" in result.message for result in results)
        with pytest.raises(StoreError, match="is closed"):
            await store.record({}, [span_start("run-a", 9)])

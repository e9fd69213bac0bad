"""Spans into the store, the real way, beside plain `sqlite3` with the same spans in the same run.

    python perf/span_store.py [--spans 100000] [--rounds 3]

Prints one JSON line. A trace has 8 spans (1 agent, 4 model, 3 tool) of about 2.5 KB, bodies
included, each body unique. The store gets them through `StoreSink`, start and end, and is measured
from the first record to the return of `flush`; the baseline encodes them with orjson and inserts
span rows and body rows with `executemany`, one commit per trace, without checks or compression. Both
run in turns, round by round; CPU counts all threads. `apart` is the same with every start durable
before its end comes: two writes per span.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import resource
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from pydoc_data.topics import topics

import orjson

from atp.protocol.spans import AttributeValue, ParentSource, SpanEnd, SpanKind, SpanStart, SpanStatus
from atp.protocol.status import Status, StopReason
from atp.protocol.task import TaskInput
from atp.protocol.trace import Grade, TaskTrace, Usage
from atp.store.bodies import digest_of
from atp.store.rows import AttemptStart, CellRow, ExperimentRow, NewSlot
from atp.store.sink import StoreSink
from atp.store.store import Store

NOW = datetime(2026, 11, 30, tzinfo=UTC)
NOW_NS = 1_795_996_800_000_000_000
KINDS = (SpanKind.AGENT, *(SpanKind.MODEL, SpanKind.TOOL) * 3, SpanKind.MODEL)
PROSE = "".join(topics.values())  # Python's own reference: 700 KB of English with some code


@dataclass(frozen=True)
class Recorded:
    """A span and the bodies that come with it."""

    bodies: list[tuple[str, bytes]]
    start: SpanStart
    end: SpanEnd

    @property
    def size(self) -> int:
        """Bytes as JSON, bodies included."""
        head = (self.start.run_id, self.start.trace_id, self.start.span_id, self.start.name)
        return (
            sum(len(content) for _, content in self.bodies)
            + len(json.dumps([dict(self.end.attributes), dict(self.end.bodies)]))
            + sum(map(len, head))
        )


def trace_of(number: int, source: random.Random) -> list[Recorded]:
    """One trace, the same for the same seed."""
    run_id, trace_id = f"run-{number:08x}", f"{source.getrandbits(128):032x}"
    root = f"{source.getrandbits(64):016x}"
    recorded: list[Recorded] = []
    for index, kind in enumerate(KINDS):
        bodies: list[tuple[str, bytes]] = []
        named: dict[str, str] = {}
        for name, length in (("input", 1150), ("output", 700)):
            at = source.randrange(len(PROSE) - length)
            message = {"role": name, "parts": [{"type": "text", "content": PROSE[at : at + length]}]}
            content = orjson.dumps(message)
            named[name] = digest_of(content)
            bodies.append((named[name], content))
        attributes: dict[str, AttributeValue] = {
            "model.name": "openai/gpt-5.2",
            "model.answered": "gpt-5.2-2026-10-01",
            "response.id": f"chatcmpl-{source.getrandbits(96):024x}",
            "finish_reason": "tool_calls",
            "usage.input_tokens": source.randrange(20_000),
            "usage.output_tokens": source.randrange(2000),
            "usage.cache_read_tokens": source.randrange(20_000),
            "atp.actor": "agent",
            "time_to_first_chunk": source.random(),
        }
        start = SpanStart(
            run_id,
            trace_id,
            root if index == 0 else f"{source.getrandbits(64):016x}",
            None if index == 0 else root,
            ParentSource.ROOT if index == 0 else ParentSource.CONTEXT,
            kind,
            "chat gpt-5.2",
            NOW_NS + index,
            {"model.name": "openai/gpt-5.2"},
        )
        recorded.append(
            Recorded(bodies, start, SpanEnd(start, NOW_NS + index + 1, SpanStatus.OK, attributes, named))
        )
    return recorded


def cpu() -> float:
    """CPU seconds of this process, all threads."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


async def planned(store: Store, traces: int) -> None:
    """An experiment of four cells with one running attempt per trace."""
    cells = [
        CellRow(f"cell-{index}", "exp-perf", index, "b", f"harness-{index}", "m", True, False, {})
        for index in range(4)
    ]
    task = TaskInput.model_validate({"task_id": "task"})
    slots = [
        NewSlot(f"slot-{n}", f"cell-{n % 4}", n // 4, task.model_copy(update={"task_id": f"t{n}"}), 0, n)
        for n in range(traces)
    ]
    await store.create_experiment(ExperimentRow("exp-perf", None, NOW, {}, "0" * 64), cells, slots)
    await store.acquire_lease("exp-perf", "perf", 86_400)
    starts = [AttemptStart(f"run-{n:08x}", f"slot-{n}", 1, f"{n:032x}", NOW) for n in range(traces)]
    for at in range(0, traces, 1000):
        await asyncio.gather(*(store.begin_attempt(start) for start in starts[at : at + 1000]))


async def ended(store: Store, traces: int) -> None:
    """Every attempt completed and graded."""

    async def end(number: int) -> None:
        run_id = f"run-{number:08x}"
        trace = TaskTrace(
            run_id=run_id,
            status=Status.COMPLETED,
            stop_reason=StopReason.ANSWERED,
            final_answer=f"answer {number}",
            turns=4,
            usage=Usage(input_tokens=1000 + number, output_tokens=100),
            elapsed=1.5,
        )
        await store.end_attempt(run_id, trace)
        await store.add_grade(run_id, Grade(score=number % 2, grader="g", grader_version="1"))

    for at in range(0, traces, 1000):
        await asyncio.gather(*(end(number) for number in range(at, min(at + 1000, traces))))


async def through_store(store: Store, spans: list[list[Recorded]], *, apart: bool) -> tuple[float, float]:
    """(wall seconds, CPU seconds) for the spans, until they are durable."""
    sink = StoreSink(store)
    wall, used = time.perf_counter(), cpu()
    for trace in spans:
        for one in trace:
            if apart:
                sink.start(one.start)
            else:
                for digest, content in one.bodies:
                    sink.body(digest, content)
                sink.start(one.start)
                sink.end(one.end)
        await sink.ready()
    if apart:
        await sink.flush()
        for trace in spans:
            for one in trace:
                for digest, content in one.bodies:
                    sink.body(digest, content)
                sink.end(one.end)
            await sink.ready()
    await sink.flush()
    return time.perf_counter() - wall, cpu() - used


def through_sqlite3(connection: sqlite3.Connection, spans: list[list[Recorded]]) -> tuple[float, float]:
    """The baseline: the same (wall seconds, CPU seconds)."""
    wall, used = time.perf_counter(), cpu()
    for trace in spans:
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(
            "INSERT INTO bodies VALUES (?, ?) ON CONFLICT DO NOTHING",
            [b for one in trace for b in one.bodies],
        )
        connection.executemany(
            "INSERT INTO spans VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", [_plain(one) for one in trace]
        )
        connection.execute("COMMIT")
    return time.perf_counter() - wall, cpu() - used


def _plain(one: Recorded) -> tuple[str | int | None, ...]:
    start, end = one.start, one.end
    return (
        start.run_id,
        start.span_id,
        start.trace_id,
        start.parent_id,
        str(start.parent_source),
        str(start.kind),
        start.name,
        start.start_ns,
        end.end_ns,
        str(end.status),
        orjson.dumps(end.attributes).decode(),
        orjson.dumps(end.bodies).decode(),
    )


def plain_database(path: Path) -> sqlite3.Connection:
    """SQLite as the baseline uses it: the same pages and durability as the store's."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA page_size=16384")
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")
    connection.execute("CREATE TABLE bodies (digest TEXT PRIMARY KEY, content BLOB)")
    connection.execute(
        "CREATE TABLE spans (run_id TEXT, span_id TEXT, trace_id TEXT, parent_id TEXT, parent_source TEXT, "
        "kind TEXT, name TEXT, start_ns INTEGER, end_ns INTEGER, status TEXT, attributes TEXT, bodies TEXT, "
        "PRIMARY KEY (run_id, span_id))"
    )
    return connection


def milliseconds(ask: Callable[[], object], times: int) -> float:
    """Median of warm repetitions."""
    ask()
    taken = []
    for _ in range(times):
        before = time.perf_counter()
        ask()
        taken.append((time.perf_counter() - before) * 1000)
    return round(statistics.median(taken), 3)


def shares(traces: int, rounds: int) -> Iterator[range]:
    """The numbers of the traces of each round."""
    for index in range(rounds):
        yield range(traces * index // rounds, traces * (index + 1) // rounds)


async def measure(spans: int, rounds: int, folder: Path) -> dict[str, object]:
    """All figures."""
    traces = max(spans // len(KINDS), rounds)
    count = traces * len(KINDS)
    source = random.Random(7)
    ours: list[tuple[float, float]] = []
    plain: list[tuple[float, float]] = []
    delivered = 0
    with Store.open(f"sqlite:///{folder / 'store.db'}") as store:
        await planned(store, traces)
        before = store.path.stat().st_size + wal(store.path)
        baseline = plain_database(folder / "plain.db")
        for numbers in shares(traces, rounds):
            recorded = [trace_of(number, source) for number in numbers]
            delivered += sum(one.size for trace in recorded for one in trace)
            ours.append(await through_store(store, recorded, apart=False))
            plain.append(through_sqlite3(baseline, recorded))
        baseline.close()
        checkpointed(store.path)
        stored = store.path.stat().st_size - before
        await ended(store, traces)
        middle = f"run-{traces // 2:08x}"
        queries = {
            "trace_ms": milliseconds(lambda: store.spans(middle), 50),
            "trace_with_bodies_ms": milliseconds(lambda: (store.spans(middle), store.bodies(middle)), 50),
            "success_table_ms": milliseconds(lambda: store.cell_totals("exp-perf"), 9),
            "token_sums_ms": milliseconds(lambda: store.token_totals("exp-perf"), 9),
        }
        if len(store.spans(middle)) != len(KINDS):
            raise RuntimeError(f"{middle} has {len(store.spans(middle))} spans")
    few = max(traces // 5, 1)
    with Store.open(f"sqlite:///{folder / 'apart.db'}") as store:
        await planned(store, few)
        apart = await through_store(store, [trace_of(number, source) for number in range(few)], apart=True)
    wall, used = (sum(part) for part in zip(*ours, strict=True))
    plain_wall, plain_used = (sum(part) for part in zip(*plain, strict=True))
    return {
        "spans": count,
        "bytes_per_span_delivered": round(delivered / count),
        "bytes_per_span_stored": round(stored / count),
        "durable_spans_per_s": round(count / wall),
        "cpu_ms_per_span": round(used / count * 1000, 4),
        "apart_spans_per_s": round(few * len(KINDS) / apart[0]),
        "apart_cpu_ms_per_span": round(apart[1] / (few * len(KINDS)) * 1000, 4),
        **queries,
        "sqlite3_spans_per_s": round(count / plain_wall),
        "sqlite3_cpu_ms_per_span": round(plain_used / count * 1000, 4),
        "sqlite3_bytes_per_span": round((folder / "plain.db").stat().st_size / count),
        "rate_against_sqlite3": round(plain_wall / wall, 3),
        "cpu_against_sqlite3": round(used / plain_used, 3),
    }


def wal(path: Path) -> int:
    """Bytes in the write-ahead log."""
    log = path.with_name(path.name + "-wal")
    return log.stat().st_size if log.exists() else 0


def checkpointed(path: Path) -> None:
    """Bring everything from the log into the file, so that its size says it all."""
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    connection.close()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Spans into the store beside plain sqlite3.")
    parser.add_argument("--spans", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures = asyncio.run(measure(arguments.spans, arguments.rounds, Path(folder)))
    sys.stdout.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main()

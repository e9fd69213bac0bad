"""SIGKILL of the engine, of its workers, of both, wherever it falls: resumed, nothing is lost or done twice.

The places are drawn from a seed that is printed; `ATP_KILL_SEED` draws others.
"""

from __future__ import annotations

import os
import random
import signal
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from atp.models.scripted.wire_log import read_wire_log
from atp.protocol.spans import Span, SpanKind, SpanStatus
from atp.protocol.status import Status
from atp.store.rows import AttemptRow
from atp.store.store import Store
from monitor.vocabulary import RESPONSE_ID
from tests.endurance.journal_replay import check_journal
from tests.kills.killing import PLACES, Blow, Struck, run_until_struck

ATTEMPTS = 60
SEED = int(os.environ.get("ATP_KILL_SEED", "20261130"))


@dataclass
class Campaign:
    """One experiment that is killed again and again, and resumed each time."""

    folder: Path
    rng: random.Random
    blows: int = 0
    fell: Counter[str] = field(default_factory=Counter)
    """Place -> blows that fell amid it."""
    acknowledged: set[str] = field(default_factory=set)
    finished: dict[str, str] = field(default_factory=dict)
    """Slot -> the gradable attempt that it had when a blow had fallen."""

    @property
    def url(self) -> str:
        return f"sqlite:///{self.folder / 'atp.db'}"

    def suffer(self, most: int) -> None:
        """Run, be killed, resume, be killed, until `most` blows have fallen or all is done."""
        begin = ["run", "-b", "ledger", "-o", f"benchmark.tasks={ATTEMPTS}", "-H", "thinloop"]
        arguments = [*begin, "-m", "scripted/oracle", "--all", "--retries", "0", "-q"]
        while self.blows < most:
            blow = Blow.drawn(self.rng)
            struck = self._atp(blow, arguments)
            arguments = ["resume", "--retries", "0", "-q"]
            if not struck.fell:
                assert struck.exit_code == 0, struck.output
                return
            self._count(blow, struck)

    def end(self) -> None:
        """Resume without a blow."""
        never = Blow("model", 1 << 30, "both", 0.0)
        struck = self._atp(never, ["resume", "--retries", "0", "-q"])
        assert struck.exit_code == 0, struck.output

    def _atp(self, blow: Blow, arguments: Sequence[str]) -> Struck:
        home = {"ATP_HOME": str(self.folder / "home")}
        struck = run_until_struck(
            blow, [*arguments, "--db", self.url], home, self.folder / f"{self.blows}.log"
        )
        self.acknowledged |= struck.acknowledged
        return struck

    def _count(self, blow: Blow, struck: Struck) -> None:
        self.blows += 1
        died = -signal.SIGKILL
        assert struck.exit_code == died if blow.target != "worker" else struck.exit_code in (0, 1), (
            blow,
            struck.output,
        )
        self.fell.update(place for place in PLACES if struck.amid[place] > 0)
        attempts, spans = self.stored()
        self.fell["model"] += any(_unheard(self.answered(), spans).values())
        for slot, run_id in self.finished.items():
            assert _gradable(attempts)[slot] == [run_id], f"{slot} was finished, and was run again"
        self.finished = {slot: runs[0] for slot, runs in _gradable(attempts).items() if runs}

    def stored(self) -> tuple[list[AttemptRow], Mapping[str, list[Span]]]:
        """All attempts, and their spans by run."""
        if not (self.folder / "atp.db").exists():
            return [], {}
        with Store.open(self.url, readonly=True) as store:
            if not store.experiments():
                return [], {}
            attempts = store.attempts(store.experiment().id)
            return attempts, {attempt.run_id: store.spans(attempt.run_id) for attempt in attempts}

    def answered(self) -> Mapping[str, set[str]]:
        """Run -> ids of the replies that the endpoint put on disk."""
        replies: defaultdict[str, set[str]] = defaultdict(set)
        for log in (self.folder / "home" / "logs").glob("*/wire.jsonl"):
            for record in read_wire_log(log):
                if record["response_id"] is not None:
                    replies[record["session"]].add(record["response_id"])
        return replies


def _gradable(attempts: Sequence[AttemptRow]) -> Mapping[str, list[str]]:
    found: defaultdict[str, list[str]] = defaultdict(list)
    for attempt in attempts:
        if attempt.status is not None and attempt.status.gradable:
            found[attempt.slot.id].append(attempt.run_id)
    return found


def _unheard(answered: Mapping[str, set[str]], spans: Mapping[str, list[Span]]) -> Mapping[str, set[str]]:
    """Run -> replies of the endpoint that no stored model span tells of."""
    return {
        run_id: replies
        - {str(span.attributes.get(RESPONSE_ID)) for span in spans.get(run_id, ()) if _model(span)}
        for run_id, replies in answered.items()
    }


def _model(span: Span) -> bool:
    return span.kind is SpanKind.MODEL and span.status is not SpanStatus.OPEN


def check(campaign: Campaign) -> None:
    """What has to hold once a campaign has ended."""
    attempts, spans = campaign.stored()
    assert check_journal(campaign.folder / "atp.db") > 0
    slots = {attempt.slot.id for attempt in attempts}
    assert len(slots) == ATTEMPTS
    assert {slot: len(runs) for slot, runs in _gradable(attempts).items()} == dict.fromkeys(slots, 1)
    for attempt in attempts:
        if attempt.status is not None and attempt.status.gradable:
            assert attempt.grade is not None and attempt.grade.score == 1.0, attempt
        else:
            assert attempt.status in (Status.INTERRUPTED, Status.INFRA_ERROR), attempt
    ended = {span.span_id for own in spans.values() for span in own if span.status is not SpanStatus.OPEN}
    assert campaign.acknowledged <= ended
    by_run = {attempt.run_id: attempt for attempt in attempts}
    for run_id, lost in _unheard(campaign.answered(), spans).items():
        status = by_run[run_id].status
        assert len(lost) <= (0 if status is not None and status.gradable else 1), (run_id, lost)


def campaigns(folder: Path, blows: int) -> Iterator[Campaign]:
    """Campaigns until so many blows have fallen."""
    rng = random.Random(SEED)
    number = 0
    while blows > 0:
        campaign = Campaign(folder / str(number), rng)
        campaign.folder.mkdir()
        campaign.suffer(min(blows, 5))
        campaign.end()
        yield campaign
        blows -= campaign.blows
        number += 1


def _survive(folder: Path, blows: int) -> None:
    print(f"ATP_KILL_SEED={SEED}")
    fell: Counter[str] = Counter()
    total = 0
    for campaign in campaigns(folder, blows):
        check(campaign)
        fell += campaign.fell
        total += campaign.blows
    print(f"{total} kills fell amid {dict(fell)}")
    assert total == blows
    assert all(fell[place] for place in PLACES), fell


@pytest.mark.timeout(900)
def test_twenty_kills_lose_nothing_and_repeat_nothing(tmp_path: Path) -> None:
    _survive(tmp_path, 20)


@pytest.mark.nightly
@pytest.mark.timeout(7200)
def test_two_hundred_kills_lose_nothing_and_repeat_nothing(tmp_path: Path) -> None:
    _survive(tmp_path, 200)

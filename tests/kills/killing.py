"""Running `atp` in a process of its own until it is killed, and what it said until then."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

PLACES = ("model", "tool", "grading", "commit")
TARGETS = ("engine", "worker", "both")
SUBJECT = Path(__file__).with_name("watched_engine.py")


@dataclass(frozen=True, slots=True)
class Blow:
    """One kill: where it falls, the how manieth time that place is entered, whom it hits, how late."""

    place: str
    count: int
    target: str
    delay: float
    """Seconds."""

    @classmethod
    def drawn(cls, rng: random.Random) -> Blow:
        """Anywhere in what a run of some dozen attempts does."""
        place = rng.choice(PLACES)
        return cls(
            place,
            rng.randint(1, 60),
            rng.choice(TARGETS),
            # A commit takes a few milliseconds; elsewhere it is to fall at once.
            rng.uniform(0, 0.003) if place == "commit" else 0.0,
        )


@dataclass(slots=True)
class Struck:
    """What is known of a run that a blow was meant for."""

    exit_code: int
    output: str
    fell: bool = False
    """Whether the blow came before the run had ended."""
    amid: Counter[str] = field(default_factory=Counter)
    """Place -> how often it had been entered and not left as the blow fell."""
    acknowledged: set[str] = field(default_factory=set)
    """Spans whose end the store had acknowledged."""


def run_until_struck(blow: Blow, arguments: Sequence[str], environment: dict[str, str], log: Path) -> Struck:
    """Run `atp ARGUMENTS` and let the blow fall."""
    reading, writing = os.pipe()
    command = [
        *(sys.executable, str(SUBJECT), str(writing), blow.place),
        *(str(blow.count), blow.target, str(blow.delay), *arguments),
    ]
    with log.open("ab") as output:
        process = subprocess.Popen(
            command, pass_fds=(writing,), stdout=output, stderr=output, env=os.environ | environment
        )
    os.close(writing)
    struck = Struck(0, "")
    with os.fdopen(reading) as said:  # ends when the process has
        for line in said:
            _understand(line.split(), struck)
    struck.exit_code = process.wait()
    struck.output = log.read_text(encoding="utf-8")
    return struck


def _understand(words: Sequence[str], struck: Struck) -> None:
    if words[0] == "acknowledged":
        struck.acknowledged.update(words[1:])
    elif words[0] == "kill":
        struck.fell = True
    elif struck.fell:  # of a worker's death the engine goes on to tell
        pass
    elif words[0].startswith("+"):
        struck.amid[words[0][1:]] += 1
    else:
        struck.amid[words[0][1:]] -= 1

"""`make lock` takes no pre-release and no step back."""

from __future__ import annotations

from pathlib import Path

import pytest
from packaging.version import Version

from scripts.lock import LOCKS, block_of, pins, refusals

PINNED = """alpha==1.10.0 \\
    --hash=sha256:aa
beta==2.0 ; python_full_version < '3.12' \\
    --hash=sha256:bb
beta==2.1 ; python_full_version >= '3.12' \\
    --hash=sha256:cc
"""


def test_pins_are_read_with_the_newest_of_a_split_one() -> None:
    assert pins(PINNED) == {"alpha": Version("1.10.0"), "beta": Version("2.1")}


def test_newer_and_equal_pins_are_taken() -> None:
    assert refusals(pins(PINNED), {"alpha": Version("1.10.0"), "beta": Version("3")}) == []


def test_a_step_back_is_refused() -> None:
    assert refusals(pins(PINNED), {"alpha": Version("1.9.0")}) == ["alpha goes back from 1.10.0 to 1.9.0"]


def test_a_pre_release_is_refused() -> None:
    assert refusals({}, {"alpha": Version("2.0rc1")}) == ["alpha 2.0rc1 is a pre-release"]


def test_what_only_ever_is_a_beta_is_taken() -> None:
    assert refusals({}, {"opentelemetry-semantic-conventions": Version("0.66b2")}) == []


def test_a_pin_is_cut_out_with_its_digests() -> None:
    assert block_of("alpha", PINNED) == "alpha==1.10.0 \\\n    --hash=sha256:aa\n"


@pytest.mark.parametrize("target", [target for target, _ in LOCKS], ids=lambda target: str(target.name))
def test_what_is_pinned_would_be_taken_again(target: Path) -> None:
    present = pins(target.read_text(encoding="utf-8"))
    assert present
    assert refusals(present, present) == []

"""Who holds a lease, and when another engine may know that it is dead."""

from __future__ import annotations

import subprocess
import sys

import pytest

from atp.engine.holder import holder, is_gone


def test_a_living_engine_is_not_gone() -> None:
    assert not is_gone(holder())


def test_an_engine_whose_process_has_ended_is_gone() -> None:
    program = "from atp.engine.holder import holder; print(holder())"
    name = subprocess.check_output([sys.executable, "-c", program], text=True).strip()
    assert is_gone(name)


def test_a_process_that_got_the_number_of_a_dead_engine_is_not_it() -> None:
    machine, pid, _, token = holder().split("/")
    assert is_gone(f"{machine}/{pid}/12345.00/{token}")


@pytest.mark.parametrize("name", ["elsewhere.1/1/1.00/ab", "me", ""])
def test_of_an_engine_elsewhere_nothing_is_known(name: str) -> None:
    assert not is_gone(name)


def test_no_two_engines_have_one_name() -> None:
    assert holder() != holder()

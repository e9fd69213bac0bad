"""Faults as a script says them: which there are, and when one fires."""

from __future__ import annotations

import pytest

from atp.models.scripted import Script
from atp.models.scripted.faults import Fault, fault_of_try
from atp.protocol.errors import InvalidInput

STEP = "steps:\n  - text: I look.\n"


def test_the_fault_of_a_try_follows_from_its_number() -> None:
    faults = [Fault(status=500), Fault(status=429, times=2), Fault(status=503, times="always")]
    statuses = [fault.status for number in range(1, 6) if (fault := fault_of_try(faults, number))]
    assert statuses == [500, 429, 429, 503, 503]
    assert fault_of_try(faults[:2], 4) is None


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("{}", "a fault does something"),
        ("{cut: half, hang: half}", "cut and hang exclude each other"),
        ("{status: 500, cut: half}", "status and cut exclude each other"),
        ("{status: 200}", "an error has a status from 400 on"),
        ("{delay: 1, code: x}", "code belongs to an error"),
        ("{delay: 1, retry_after: 1}", "retry_after belongs to an error"),
        ("{status: 500, content_type: text/html}", "content_type belongs to a body or a reply"),
        ("{cut: middle}", "line 3: steps[1].faults[1].cut: Input should be 'before_head'"),
        ("{status: 500, times: 0}", "steps[1].faults[1].times"),
        ("{delay: -1}", "steps[1].faults[1].delay"),
        ("{status: 500, times: always}, {status: 400}", "no fault after one that fires always"),
        ("{sleep: 1}", "steps[1].faults[1].sleep: no such key"),
    ],
)
def test_a_fault_that_is_none_is_named(fault: str, says: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        Script.from_yaml(f"{STEP}    faults: [{fault}]\n", "s.yaml")
    assert says in caught.value.message

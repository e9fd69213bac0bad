"""The rules hold wherever a harness runs and however much of it at once."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from atp import registry
from atp.conformance.harness import check_harness
from atp.conformance.observing import Placement
from atp.engine import environments
from atp.engine.environments import OWN_DISTRIBUTION
from atp.engine.virtual_environment import Recipe, ask, python_in
from scripts.harnesses_page import HARNESSES

TOGETHER = Recipe(
    name="extras-together",
    owner="four harnesses",
    command="",
    requirements="requirements/extras-together.txt",
    distributions=(OWN_DISTRIBUTION,),
)
"""The engine and four harnesses in one environment, all at their newest. CrewAI fits with none that needs
openai 3."""
CREWAI = Recipe(
    name="extra-crewai",
    owner="crewai",
    command="",
    requirements="requirements/extra-crewai.txt",
    distributions=(OWN_DISTRIBUTION,),
)
SHARING = tuple(name for name in HARNESSES if name != "crewai")

IN_PROCESS = """
import asyncio, sys
from atp.conformance.harness import check_harness
from atp.conformance.observing import Placement

report = asyncio.run(check_harness(sys.argv[1], placement=Placement(workers=0)))
print(report)
"""


async def python_of(recipe: Recipe) -> Path:
    """The interpreter of an environment that is made if it is not there."""
    path = (await environments.create(recipe)).path
    assert path is not None
    return python_in(path)


async def kept(harness: str, placement: Placement) -> str:
    """What came of the checks."""
    await environments.create(registry.harness(harness))
    return str(await check_harness(harness, placement=placement))


async def sixteen_at_once(harness: str) -> str:
    """More attempts in flight than the default."""
    return await kept(harness, Placement(concurrency=16))


async def four_workers(harness: str) -> str:
    """The same attempts in four processes."""
    return await kept(harness, Placement(workers=4))


async def shared_environment(harness: str) -> str:
    """Beside other harnesses in one environment."""
    return await kept(harness, Placement(python=await python_of(TOGETHER)))


async def in_process(harness: str) -> str:
    """`--workers 0`: the engine on an interpreter that has the harness's extra."""
    python = await python_of(TOGETHER if harness in SHARING else CREWAI)
    said = await asyncio.to_thread(ask, python, "-c", IN_PROCESS, harness, variables=os.environ)
    return said.decode()


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("harness", "way"),
    [
        (harness, way)
        for harness in HARNESSES
        for way in (sixteen_at_once, four_workers, in_process, shared_environment)
        if way is not shared_environment or harness in SHARING
    ],
)
async def test_a_harness_keeps_every_rule_there_too(
    harness: str, way: Callable[[str], Awaitable[str]]
) -> None:
    said = await way(harness)
    assert f"{harness}: 0 of " in said, said

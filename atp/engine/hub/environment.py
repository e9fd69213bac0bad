"""The environment of the library that reads hub data sets."""

from __future__ import annotations

from atp.engine.virtual_environment import Recipe

NAME = "hub-datasets"
"""How its folder's name begins, and what `atp env` calls it."""


def recipe(command: str = f"atp env create {NAME}") -> Recipe:
    """How it is made.

    Args:
        command: What makes it: fetching data does, too.
    """
    return Recipe(
        name=NAME,
        owner="the reader of hub data sets",
        command=command,
        requirements="atp/engine/hub/requirements.txt",
    )

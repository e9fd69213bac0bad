"""How a harness wants things said, apart from what is said and from the wire's dialect.

Most harnesses take tool calls and text as they are: `plain`. Others expect prefixed tool names, a
tool for the final answer, or calls as a block of code. An idiom translates both ways, so that a
policy sees every harness's request in the plain form.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from atp.models.scripted.code_block import CodeBlock
from atp.models.scripted.current_task import CurrentTask
from atp.models.scripted.final_answer import FinalAnswer
from atp.models.scripted.prefixed_names import PrefixedNames
from atp.models.scripted.steps import RequestView, Step
from atp.protocol.errors import UnknownName
from atp.protocol.names import nearest


class Idiom(Protocol):
    """A translation between a harness's way of speaking and the plain one."""

    def hear(self, view: RequestView) -> RequestView:
        """The harness's request in the plain form: results of earlier calls as tool messages."""

    def say(self, step: Step, view: RequestView) -> Step:
        """A plain step as the harness understands it; `view` is the request as it came."""

    def plain(self, step: Step) -> Step:
        """A step that the harness understands, in the plain form."""


class Plain:
    """Tool calls are tool calls and text is text."""

    def hear(self, view: RequestView) -> RequestView:
        """The request as it is."""
        return view

    def say(self, step: Step, view: RequestView) -> Step:
        """The step as it is."""
        return step

    def plain(self, step: Step) -> Step:
        """The step as it is."""
        return step


IDIOMS: Mapping[str, Idiom] = {
    "plain": Plain(),
    "final_answer": FinalAnswer(),
    "current_task": CurrentTask(),
    "code_block": CodeBlock(),
}
"""By the name that a harness card gives."""

PREFIXED = "prefixed:"
"""Begins the name of an idiom whose rest is the prefix of tool names."""


def idiom_named(name: str) -> Idiom:
    """The idiom of a harness card.

    Raises:
        UnknownName: No such idiom; names the nearest.
    """
    if name in IDIOMS:
        return IDIOMS[name]
    if name.startswith(PREFIXED) and name != PREFIXED:
        return PrefixedNames(name.removeprefix(PREFIXED))
    offered = [*IDIOMS, f"{PREFIXED}PREFIX"]
    raise UnknownName(f"unknown idiom {name!r}{nearest(name, offered)}; there are {', '.join(offered)}")

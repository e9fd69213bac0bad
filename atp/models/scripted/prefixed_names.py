"""The idiom of a harness that puts something before the names of tools: `mcp__server__` before a server's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from atp.models.scripted.steps import Message, RequestView, Step, StepCall


class PrefixedNames:
    """Tools are called by their names on the wire, and heard by those that the binding gave them.

    Args:
        prefix: What stands before the names of the binding's tools. The harness's own tools go without.
    """

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def hear(self, view: RequestView) -> RequestView:
        """The request with the binding's names."""
        return replace(
            view,
            messages=tuple(map(self._heard, view.messages)),
            tools=tuple(replace(tool, name=self._bare(tool.name)) for tool in view.tools),
        )

    def say(self, step: Step, view: RequestView) -> Step:
        """The step with the names on the wire; a tool that nobody offered has the prefix too."""
        offered = {tool.name for tool in view.tools}

        def on_wire(name: str) -> str:
            prefixed = self._prefix + name
            return name if name in offered and prefixed not in offered else prefixed

        return replace(step, tool_calls=_renamed(step.tool_calls, on_wire))

    def plain(self, step: Step) -> Step:
        """The step with the binding's names."""
        return replace(step, tool_calls=_renamed(step.tool_calls, self._bare))

    def _heard(self, message: Message) -> Message:
        if not message.tool_calls:
            return message
        return replace(message, tool_calls=_renamed(message.tool_calls, self._bare))

    def _bare(self, name: str) -> str:
        return name.removeprefix(self._prefix)


def _renamed(calls: tuple[StepCall, ...], name_of: Callable[[str], str]) -> tuple[StepCall, ...]:
    return tuple(replace(call, name=name_of(call.name)) for call in calls)

"""The idiom of a harness that puts words around the user's: CrewAI.

What the user says comes as one of (slices `native_task` and `task_no_tools` of CrewAI 1.15.30)::

    \\nCurrent Task: <words>
    \\nCurrent Task: <words>\\n\\nProvide your complete response:
"""

from __future__ import annotations

from dataclasses import replace

from atp.models.scripted.steps import Message, RequestView, Step

_BEFORE = "\nCurrent Task: "
_BEHIND = "\n\nProvide your complete response:"


class CurrentTask:
    """Replies are as they are; of what the user says, the words alone are heard."""

    def hear(self, view: RequestView) -> RequestView:
        """The request with the user's own words."""
        return replace(view, messages=tuple(map(_heard, view.messages)))

    def say(self, step: Step, view: RequestView) -> Step:
        """The step as it is."""
        return step

    def plain(self, step: Step) -> Step:
        """The step as it is."""
        return step


def _heard(message: Message) -> Message:
    if message.role != "user" or not message.text.startswith(_BEFORE):
        return message
    return replace(message, text=message.text.removeprefix(_BEFORE).removesuffix(_BEHIND))

"""The tool calls that replies announce against those that went through the binding."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from atp.protocol.records import ModelCallRecord
from atp.protocol.trace import CallIdSource, ToolCall
from monitor.records.codes import Code, difference, times
from monitor.records.nature import Nature


class Executions:
    """Matches calls by id and tool, those without a model's id by tool and number.

    Tools are called by their names on the wire. A call that the harness reads out of a text has an id
    of the harness's own, and is matched by tool: with a reply whose span tells of it, or, without
    spans, with one that announces no call.

    Args:
        calls: The agent's model calls, by spans or by the endpoint's log.
        binding: The calls that went through the binding.
        passed_over: Ids of announced calls of which no execution is expected.
        nature: Of the harness.
        by_spans: Whether `calls` are model spans.
    """

    def __init__(
        self,
        calls: Sequence[ModelCallRecord],
        binding: Sequence[ToolCall],
        passed_over: Collection[str],
        nature: Nature,
        by_spans: bool,
    ) -> None:
        self._passed_over = passed_over
        self._nature = nature
        self._announced: Counter[tuple[str, str]] = Counter(
            pair for call in calls for pair in call.tool_calls if pair[1] not in nature.owned_tools
        )
        self._executed: Counter[tuple[str, str]] = Counter()
        self._nameless: Counter[str] = Counter()
        for call in binding:
            name = nature.tool_names_on_wire.on_wire(call.name)
            if call.id_source is CallIdSource.MODEL:
                self._executed[call.id, name] += 1
            else:
                self._nameless[name] += 1
        self._written: Counter[str] = Counter(
            name for call in calls for name in call.written_calls if name not in nature.owned_tools
        )
        self._texts = (
            sum(call.answered and not call.tool_calls for call in calls)
            if nature.calls_from_text and not by_spans
            else 0
        )
        self.native: list[str] = []
        """Calls that were read out of texts."""

    def differences(self) -> Iterator[str]:
        """Name every call that only one side knows of; fills `native`."""
        announced, executed = self._announced, self._executed
        for (call_id, name), count in (executed - announced).items():
            unexplained = count - self._from_text(call_id, name, count)
            if unexplained:
                yield difference(
                    Code.CALL_NOT_ANNOUNCED,
                    f"call {call_id} ({name}): executed {times(executed[call_id, name])}, "
                    f"announced {times(announced[call_id, name])}",
                )
        for (call_id, name), count in (announced - executed).items():
            explained = min(count, self._nameless[name])
            self._nameless[name] -= explained
            if count > explained and call_id not in self._passed_over:
                yield difference(
                    Code.CALL_NOT_EXECUTED,
                    f"call {call_id} ({name}): announced {times(announced[call_id, name])}, "
                    f"executed {times(executed[call_id, name] + explained)}",
                )
        yield from self._without_id()

    def _from_text(self, call_id: str, name: str, count: int) -> int:
        explained = min(count, self._written[name])
        self._written[name] -= explained
        if explained < count and self._texts:
            self._texts -= 1
            explained += 1
        if explained:
            self.native.append(
                difference(
                    Code.CALL_FROM_TEXT,
                    f"call {call_id} ({name}): announced by no reply; the harness read it out of the text "
                    "of one and gave it an id of its own",
                )
            )
        return explained

    def _without_id(self) -> Iterator[str]:
        for name, count in self._nameless.items():
            if count > 0 and not self._nature.calls_by_code:
                yield difference(
                    Code.CALL_NOT_ANNOUNCED,
                    f"tool {name}: executed {times(count)} without a call id, never announced",
                )
        for name, count in self._written.items():
            if count > 0:
                yield difference(
                    Code.CALL_NOT_EXECUTED,
                    f"tool {name}: written {times(count)} as text for the harness to call, never executed",
                )

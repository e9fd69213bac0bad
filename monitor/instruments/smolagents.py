"""The instrument for smolagents: a model that is watched while it generates, turned into spans.

smolagents' own hooks, step callbacks and the memory, tell of a step when it and its tools are over,
and of the forced last call at a limit they show no message. What serves is its documented way to
bring a model: a subclass of `OpenAIModel` that does what its base does and notes when. What was
asked and answered comes from the HTTP client (`monitor.instruments.openai_http`): there alone are
the response id of the forced call, cached and reasoning tokens, reasoning text, and the messages as
smolagents merges them.

Managed agents are watched by an instance attribute `run`, since nothing else tells when one begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial, wraps
from typing import Any

from monitor.instruments.openai_http import MODEL_CALL
from monitor.instruments.openai_replies import AnnouncedCall, ChatReply
from monitor.instruments.threaded_calls import ModelCall, ThreadedInstrument


class SmolagentsInstrument(ThreadedInstrument[Mapping[str, Any]]):
    """Watches one attempt (implements `atp.protocol.spans.Instrument`). Made within the event loop.

    Of a model call it knows the smolagents tools that the model may call, by name.
    """

    @property
    def watched_model(self) -> Callable[..., Any]:
        """Makes an `OpenAIModel` that is watched, with the same arguments."""
        return partial(_watched_model_class(), self)

    def watch_managed(self, agent: Any) -> None:
        """Have an agent span for each run of the agents that this one manages, and of those below.

        Args:
            agent: A `MultiStepAgent` that lives for this attempt only.
        """
        for managed in agent.managed_agents.values():
            if "run" not in vars(managed):  # two may manage the same
                managed.run = self._watched_run(managed)
                self.watch_managed(managed)

    def _watched_run(self, agent: Any) -> Callable[..., Any]:
        run = agent.run

        @wraps(run)
        def watched(*args: Any, **asked: Any) -> Any:
            span = self.agent_started(agent.name, None)
            if span is None:
                return run(*args, **asked)
            error: BaseException | None = None
            try:
                with self.recorder.as_current(span.span_id):
                    return run(*args, **asked)
            except BaseException as raised:
                error = raised
                raise
            finally:
                # Not an Exception: the attempt is being stopped.
                if error is None or isinstance(error, Exception):
                    self.agent_ended(span, error)

        return watched

    def refused(self, call: ModelCall[Mapping[str, Any]], announced: AnnouncedCall) -> bool:
        """See `ThreadedInstrument.refused`."""
        return _refused(call.asked.get(announced.name), announced.arguments)

    def written(self, call: ModelCall[Mapping[str, Any]], reply: ChatReply) -> Iterator[str]:
        """See `ThreadedInstrument.written`."""
        name = _written_call(call.asked, reply.text)
        if name is not None:
            yield name

    # For the watched model, in threads of the agent.

    @contextmanager
    def model_call(self, tools: Sequence[Any] | None) -> Iterator[None]:
        """A model call from its beginning to its end.

        Args:
            tools: The smolagents tools that the model may call.
        """
        call = ModelCall(self, {tool.name: tool for tool in tools or ()})
        MODEL_CALL.set(call)
        error: BaseException | None = None
        try:
            yield
        except BaseException as raised:
            error = raised
            raise
        finally:
            MODEL_CALL.set(None)
            # Not an Exception: the attempt is being stopped.
            if error is None or isinstance(error, Exception):
                self.call_ended(call, error)


def _written_call(tools: Mapping[str, Any], text: str | None) -> str | None:
    """The tool that smolagents will call by a reply's text, read as `Model.parse_tool_calls` reads it;
    None where it will call none."""
    if not tools or text is None:
        return None
    from smolagents.models import get_tool_call_from_text

    try:
        call = get_tool_call_from_text(text, "name", "arguments").function
        name = str(call.name)
    except Exception:  # noqa: BLE001  whatever it raises, no call is made
        return None
    return None if _refused(tools.get(name), call.arguments) else name


def _refused(tool: Any, arguments: Any) -> bool:
    """Whether smolagents will answer the call itself, by the check it makes before calling a tool."""
    if tool is None:
        return True
    from smolagents.models import parse_json_if_needed
    from smolagents.tools import validate_tool_arguments

    try:
        validate_tool_arguments(tool, parse_json_if_needed(arguments) or {})
    except Exception:  # noqa: BLE001  whatever it raises is a refusal
        return True
    return False


@lru_cache(maxsize=1)
def _watched_model_class() -> Any:
    from smolagents import OpenAIModel

    class WatchedModel(OpenAIModel):  # type: ignore[misc]  # the SDK has no types
        def __init__(self, instrument: SmolagentsInstrument, **arguments: Any) -> None:
            self._instrument = instrument
            super().__init__(**arguments)

        def generate(self, messages: Any, *args: Any, **asked: Any) -> Any:
            with self._instrument.model_call(asked.get("tools_to_call_from")):
                return super().generate(messages, *args, **asked)

        def generate_stream(self, messages: Any, *args: Any, **asked: Any) -> Iterator[Any]:
            with self._instrument.model_call(asked.get("tools_to_call_from")):
                yield from super().generate_stream(messages, *args, **asked)

    return WatchedModel

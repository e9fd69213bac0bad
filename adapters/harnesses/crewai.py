"""CrewAI: an `Agent` that is kicked off, with CrewAI's own OpenAI client.

The loop, the prompts around the benchmark's, the client with its retries, the threads for parallel tool
calls and the compaction of long conversations are CrewAI's own. `Agent.kickoff` is its documented way to
work with one agent, and the only one that takes a conversation: the messages that a kickoff gives back
go into the next. A `Crew` starts from nothing each time; it is run as an agent of one's own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import lru_cache, partial
from tempfile import TemporaryDirectory
from typing import Any

from adapters.harnesses.announced_calls import AnnouncedCalls
from adapters.harnesses.crewai_tools import DEFERRED_READER, binding_tools
from adapters.harnesses.crewai_turn import TurnEvents
from adapters.harnesses.turn_threads import TurnThreads
from atp.protocol.binding import AgentBinding
from atp.protocol.cards import HarnessCard
from atp.protocol.errors import AgentError, InvalidInput
from atp.protocol.harness_options import flag, refuse_unknown, texts_of
from atp.protocol.model import Dialect
from atp.protocol.own_agents import AgentParts
from atp.protocol.runner import Conversation, ConversationRunner, Reply, RunContext
from atp.protocol.status import StopReason
from atp.protocol.task import Part
from atp.protocol.trace import Usage
from monitor.instruments.crewai import CrewAIInstrument, watched_model_class

_STREAM, _COMPACTION = "stream", "compaction"
_ROLE, _GOAL = "Agent", "Do what the current task asks for."
"""CrewAI wants all three of role, goal and backstory; the benchmark's prompt is the last."""
_EMPTY_REPLY = "Invalid response from LLM call - None or empty."
_OVERFLOW = "Context length exceeded"
"""How CrewAI says so: by a `ValueError`, and by a `SystemExit` that begins like this."""
_CALL_EVENT = "ToolUsageStartedEvent"
"""What cannot be made of arguments that are no object: a pydantic error of this title ends the run."""

CARD = HarnessCard(
    name="crewai",
    title="CrewAI",
    package="crewai",
    version="1.15.30",
    dialects=(Dialect.OPENAI_CHAT,),
    runner="adapters.harnesses.crewai:CrewAIRunner",
    instrument="monitor.instruments.crewai:CrewAIInstrument",
    requirements="adapters/harnesses/crewai.txt",
    extra="crewai",
    owned_tools=(DEFERRED_READER,),
    idiom="current_task",
    schema_on_wire=(
        'with `"strict": true`: all properties are required, those that may be left out are nullable as '
        "well, and a null written for one of them is delivered as left out; objects are closed, so that one "
        "whose keys are not named has none; `default`, `title`, `examples` and formats other than of dates "
        "and times are dropped; `oneOf` becomes `anyOf`; `$ref` is replaced by what it names"
    ),
    wire_schema="adapters.harnesses.crewai_schema:wire_parameters",
    optional_on_wire="null",
    prompt_on_wire="within",
    call_ids="matched",
    text_beside_calls="dropped",
    unknown_tool="unnamed",
    raising_tool="told",
    soft_turn_limit=(
        "`max_iter` (25 by default, per user line) counts model calls with their tools; when it fires, one "
        "more model call without tools is made for an answer, and the run ends max_turns"
    ),
    extra_calls_at_limit=1,
    retries=(
        "the openai client: twice, after 408, 409, 429, 5xx and lost connections, after half a second and "
        "more or as long as Retry-After says; then CrewAI itself after a rate limit (429), twice, after a "
        "second and more; `timeout` is of each try"
    ),
    environment={
        "CREWAI_DISABLE_TELEMETRY": "true",
        "CREWAI_DISABLE_TRACKING": "true",
        "CREWAI_TRACING_ENABLED": "false",
        "CREWAI_DISABLE_VERSION_CHECK": "true",
    },
    preload=("crewai", "crewai.llms.providers.openai.completion", "openai.resources.chat.completions"),
    agent_packages=("crewai",),
    own_agent_notes=(
        "An `Agent` is kicked off as the built-in one is. A `Crew` is kicked off with the input `task`, the "
        "user's words, for its tasks to hold as `{task}`; it takes one task and no dialogue, and gives the "
        "output of its last one.",
        "Each task of a crew, each delegation and each kickoff of another agent has an agent span.",
        "`max_turns` is given to an agent as `max_iter`, and not to those of a crew: there model calls are "
        "counted from outside.",
        "Tokens are those of `parts.model`, hence of all agents that have it.",
    ),
    options={
        _STREAM: "true: the model's replies are streamed; default false",
        _COMPACTION: (
            "true or false: whether CrewAI compacts a long conversation and puts a long result aside "
            "(`respect_context_window`, `use_better_compaction`); by default as CrewAI has it, true, for a "
            "model whose context window it knows, and false for others, since it takes theirs to be 8192 "
            "tokens"
        ),
    },
    notes=(
        "The prompt is CrewAI's own: in the system message the benchmark's stands, as `backstory`, between a "
        "role and a goal; the user's words follow `Current Task:`. In both, `{input}`, `{tools}` and "
        "`{tool_names}` are placeholders of CrewAI's.",
        "Of a reply with tool calls the text beside them is not kept in the conversation.",
        "Of a tool that does not exist the model is told `Tool not found`, without its name.",
        "Model spans come from CrewAI's events, heard as they are sent, and their content from the HTTP "
        "clients. The event bus is not used: it tells its listeners later, in other threads.",
        "The model is CrewAI's `OpenAICompletion` with HTTP clients that share their certificates: it would "
        "load them twice for each attempt, which costs more than all the rest of a short one.",
        "The same call with the same result for the fifth time ends the run. Results of the benchmark's "
        "tools are never taken from CrewAI's cache: the tools say so.",
        "Arguments that are no JSON, and a call of a tool that does not exist, are answered by CrewAI; "
        "arguments that are no object end the run, unless there are calls beside them.",
        "An empty reply ends the run. Without tools a text with `Final Answer:` is cut to what follows it; "
        "one with a line that begins with `Observation:` is cut there, with tools too.",
        "A context that is exceeded ends the run, where CrewAI does not compact: it exits then, which the "
        "adapter takes for `context_length`.",
        "For a model with `o1` in its name CrewAI asks for tool calls as text; those have no id.",
        "CrewAI's usage has 0 where the provider says nothing: its sum is unknown where a reply came without "
        "usage, and counts of 0 cached or reasoning tokens are taken to be unknown. A reply whose usage has "
        "no `total_tokens` fails the run.",
        "A cancelled attempt cancels its tool calls and shuts its connections; a thread that sleeps before a "
        "retry ends at its next request, and a thread within a tool of the agent's own ends when that does.",
    ),
)


class CrewAIRunner(ConversationRunner):
    """Runs tasks through `Agent.kickoff`."""

    def __init__(self) -> None:
        # Where a crew puts what its tasks gave; in the user's data by default, under the name of the folder
        # one is in.
        os.environ.setdefault("CREWAI_STORAGE_DIR", _storage().name)

    async def open(self, binding: AgentBinding, context: RunContext) -> Conversation:
        """See `ConversationRunner.open`.

        Raises:
            InvalidInput: An option, a tool that CrewAI cannot have, an instrument of another harness, or a
                crew for a dialogue.
            PluginError: The factory of the user's own agent failed.
        """
        stream, compaction = _options(context.options)
        instrument = context.instrument
        if instrument is not None and not isinstance(instrument, CrewAIInstrument):
            raise InvalidInput(f"crewai is watched by CrewAIInstrument, not by {type(instrument).__name__}")
        from crewai import Agent, Crew

        threads, announced = TurnThreads(), AnnouncedCalls()

        def call(name: str, arguments: Any, call_id: str | None) -> str:
            return threads.call(lambda: binding.call(name, arguments, call_id=call_id)).text

        tools = binding_tools(binding.tools, announced, call)
        held = AsyncExitStack()
        model = _model(context, stream, threads.before_request)
        held.callback(model.release)
        own: Any
        if context.own_agent is None:
            compacts = _knows_window(context.model.model) if compaction is None else compaction
            own = Agent(
                role=_ROLE,
                goal=_GOAL,
                backstory=binding.system_prompt or "",
                tools=tools,
                llm=model,
                respect_context_window=compacts,
                use_better_compaction=compacts,
            )
        else:
            parts = AgentParts(model, tools, binding.system_prompt, held)
            try:
                own = await context.own_agent.build(parts, (Agent, Crew), "an Agent or a Crew of CrewAI")
                if isinstance(own, Crew) and binding.has_user:
                    raise InvalidInput("a Crew of CrewAI has no dialogue: make an Agent")
            except BaseException:
                await held.aclose()
                raise
        if instrument is not None:
            instrument.watch(own, frozenset(tool.name for tool in binding.tools))
        kickoff = _crew_kickoff(own) if isinstance(own, Crew) else _AgentKickoff(own)
        return CrewAIConversation(kickoff, model, context, threads, announced, held)


class CrewAIConversation:
    """One agent and the messages so far (implements `atp.protocol.runner.Conversation`).

    Args:
        kickoff: Makes of a user's line, and of the model calls left, an answer.
        model: Which counts.
        context: Of the attempt.
        threads: Where its turns run.
        announced: Where its tools find their call ids.
        held: What to let go of at the end.
    """

    def __init__(
        self,
        kickoff: Callable[[str, int | None], str],
        model: Any,
        context: RunContext,
        threads: TurnThreads,
        announced: AnnouncedCalls,
        held: AsyncExitStack,
    ) -> None:
        self._kickoff = kickoff
        self._model = model
        self._context = context
        self._threads = threads
        self._announced = announced
        self._held = held
        self._calls = 0

    async def send(self, parts: Sequence[Part]) -> Reply:
        """See `Conversation.send`.

        Raises:
            InvalidInput: A part that is not text.
            crewai.tools.tool_failure.ToolExecutionFailedError: The agent has gone round in a circle.
            AgentError: The model said nothing.
        """
        line = "\n\n".join(texts_of("crewai", parts))
        limit = self._context.limits.max_turns
        if limit is not None and limit <= self._calls:
            return Reply(stop_reason=StopReason.MAX_TURNS, usage=None, model_calls=0, response_ids=())
        before = self._model.get_token_usage_summary()
        self._announced.clear()
        events = TurnEvents(self._announced)
        left = None if limit is None else limit - self._calls
        text, hindrance = await self._threads.run(partial(self._turn, line, left, events))
        used = self._model.get_token_usage_summary().delta_since(before)
        self._calls += events.model_calls
        return Reply(
            text=text,
            stop_reason=hindrance or (StopReason.MAX_TURNS if events.forced else StopReason.ANSWERED),
            usage=_usage(used) if events.usage_is_whole else None,
            model_calls=events.model_calls,
            response_ids=events.response_ids,
            native={"calls": self._calls, "asked_for_answer_at_once": events.forced},
        )

    async def close(self) -> None:
        """See `Conversation.close`."""
        if self._context.instrument is not None:
            # What is open now was cut short: the recorder knows by what.
            self._context.instrument.close()
        await self._threads.stop()
        await self._held.aclose()

    def _turn(self, line: str, left: int | None, events: TurnEvents) -> tuple[str | None, StopReason | None]:
        """The answer, or what kept it from coming."""
        # The thread has a context of its own, which ends with it.
        from crewai.events.stream_context import add_stream_sink

        add_stream_sink(events.heard)
        if isinstance(self._context.instrument, CrewAIInstrument):
            add_stream_sink(self._context.instrument.heard)
        try:
            return self._kickoff(line, left), None
        except SystemExit as error:
            # What it does where it may not compact; a worker has other runs to go on with.
            if str(error).startswith(_OVERFLOW):
                return None, StopReason.CONTEXT_LENGTH
            raise
        except ValueError as error:
            if str(error) == _EMPTY_REPLY:
                raise AgentError("CrewAI ends the run at an empty reply of its model") from error
            if getattr(error, "title", None) == _CALL_EVENT:
                raise AgentError("CrewAI takes an object only as arguments of a call") from error
            raise


class _AgentKickoff:
    """An agent, and the conversation as it gave it back."""

    def __init__(self, agent: Any) -> None:
        self._agent = agent
        self._past: list[Any] = []

    def __call__(self, line: str, left: int | None) -> str:
        if left is not None:
            self._agent.max_iter = left
        output = self._agent.kickoff([*self._past, {"role": "user", "content": line}])
        self._past = [message for message in output.messages if message["role"] != "system"]
        if self._past[-1]["role"] != "assistant":
            # Without tools an answer is not among the messages.
            self._past.append({"role": "assistant", "content": output.raw})
        return str(output.raw)


def _crew_kickoff(crew: Any) -> Callable[[str, int | None], str]:
    def kickoff(line: str, left: int | None) -> str:
        return str(crew.kickoff(inputs={"task": line}).raw)

    return kickoff


def _model(context: RunContext, stream: bool, before: Callable[[Any], None]) -> Any:
    chosen: dict[str, Any] = {}
    if context.sampling.temperature is not None:
        chosen["temperature"] = context.sampling.temperature
    if context.sampling.max_output_tokens is not None:
        chosen["max_completion_tokens"] = context.sampling.max_output_tokens
    if context.limits.model_timeout is not None:
        chosen["timeout"] = context.limits.model_timeout
    return watched_model_class()(
        before,
        model=context.model.model,
        base_url=context.model.base_url,
        api_key=context.model.api_key.get_secret_value(),
        # As `LLM` sets it for a base URL: no other API is tried when this one refuses the model.
        custom_openai=True,
        stream=stream,
        **chosen,
    )


def _knows_window(model: str) -> bool:
    from crewai.llms.context_window import OPENAI_CONTEXT_WINDOWS, resolve_context_window_size

    return bool(resolve_context_window_size(model, OPENAI_CONTEXT_WINDOWS, default=0))


@lru_cache(maxsize=1)
def _storage() -> TemporaryDirectory[str]:
    """A folder that goes when this process ends."""
    return TemporaryDirectory(prefix="atp-crewai-")


def _options(options: Mapping[str, Any]) -> tuple[bool, bool | None]:
    refuse_unknown("crewai", options, (_STREAM, _COMPACTION))
    return flag(options, _STREAM) or False, flag(options, _COMPACTION)


def _usage(used: Any) -> Usage:
    return Usage(
        input_tokens=used.prompt_tokens,
        output_tokens=used.completion_tokens,
        cache_read_tokens=used.cached_prompt_tokens or None,
        reasoning_tokens=used.reasoning_tokens or None,
    )

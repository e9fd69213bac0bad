"""smolagents: a `ToolCallingAgent` with `OpenAIModel`, as its documentation has it.

The loop, the prompt around the benchmark's, the model client with its retries, the threads for
parallel tool calls and the memory are smolagents' own. A conversation is one agent whose memory is
not reset: `agent.run(line, reset=False)`. The steps are taken from `run(stream=True)`, which tells
each tool call with its id before it is made; the full `RunResult` would serialize the whole memory
after every line.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

from adapters.harnesses.announced_calls import AnnouncedCalls
from adapters.harnesses.smolagents_tools import FINAL_ANSWER, binding_tools
from adapters.harnesses.turn_threads import TurnThreads
from atp.protocol.binding import AgentBinding
from atp.protocol.cards import HarnessCard
from atp.protocol.errors import InvalidInput
from atp.protocol.harness_options import refuse_unknown, texts_of
from atp.protocol.model import Dialect
from atp.protocol.own_agents import AgentParts
from atp.protocol.runner import Conversation, ConversationRunner, Reply, RunContext
from atp.protocol.status import StopReason
from atp.protocol.task import Part
from atp.protocol.trace import Usage
from monitor.instruments.openai_http import copying_client
from monitor.instruments.smolagents import SmolagentsInstrument

CARD = HarnessCard(
    name="smolagents",
    title="smolagents",
    package="smolagents",
    version="1.26.0",
    dialects=(Dialect.OPENAI_CHAT,),
    runner="adapters.harnesses.smolagents:SmolagentsRunner",
    instrument="monitor.instruments.smolagents:SmolagentsInstrument",
    requirements="adapters/harnesses/smolagents.txt",
    extra="smolagents",
    owned_tools=(FINAL_ANSWER,),
    history="accepted",
    calls_from_text=True,
    idiom="final_answer",
    schema_on_wire=(
        "the properties only, each with `type` and `description` (empty where the benchmark has none): "
        "`nullable` is added to optional ones; `anyOf` of a schema and null becomes a list of types, any "
        "other moves below `allOf`; `$ref` is replaced by what it names; of the object around them "
        "nothing but `required` remains, so `additionalProperties` is dropped, and smolagents itself "
        "refuses arguments that are no property"
    ),
    wire_schema="adapters.harnesses.smolagents_inputs:wire_parameters",
    prompt_on_wire="within",
    call_ids="matched",
    history_on_wire="text",
    raising_tool="told",
    soft_turn_limit=(
        "`max_steps` (20 by default, per user line) counts steps, one model call each with its tools; when "
        "it fires, one more model call without tools is made for an answer, and the run ends max_turns"
    ),
    extra_calls_at_limit=1,
    retries=(
        "the openai client: twice, after 408, 409, 429, 5xx and lost connections, after half a second and "
        "more or as long as Retry-After says; then smolagents itself after a rate limit (429), with minutes "
        "between; `timeout` is of each try"
    ),
    # smolagents itself calls home for nothing; the hub's client beneath it can.
    environment={"HF_HUB_DISABLE_TELEMETRY": "1"},
    agent_packages=("smolagents",),
    own_agent_notes=(
        "Managed agents are seen through an instance attribute `run` that the instrument puts on each: the "
        "SDK's step callbacks tell of a step only when it is over, so no span could begin with the agent. "
        "Below a CodeAgent, whose code runs in threads without their context, spans hang from the root.",
        "Tool calls of managed agents and of code have no call id.",
        "With managed agents there are no counts of its own: an agent tells of its own steps only.",
        "`max_turns` is given to the agent as `max_steps`; model calls of managed agents are counted from "
        "outside.",
    ),
    notes=(
        "The system prompt is smolagents' own; the benchmark's stands in it, as `instructions`.",
        "Earlier tool calls and their results are shown to the model as text, not as tool messages; "
        "results are stripped of white space at their ends, and those of parallel calls are joined; these "
        "calls stand in the order in which they ended.",
        "Requests carry smolagents' `tool_choice: required` and `stop` sequences.",
        "Model spans come from a subclass of OpenAIModel around `generate`, and their content from the "
        "HTTP client given by `client_kwargs`: step callbacks run after the step and its tools, and of "
        "the forced last call they show no message.",
        "Tools are not told their call id: it is found by name and arguments among the calls that the "
        "step has announced.",
        "Malformed arguments: text that is no JSON object is handed to the tool's first input if that "
        "takes a string; a call that smolagents refuses, an unknown tool among them, is told to the "
        "model without the call.",
        "A tool call that the model writes as text is made, under an id of smolagents' own; the comparison "
        "of records names it as `call_from_text`.",
        "A reply without usage fails the run.",
        "A cancelled attempt interrupts the agent, cancels its tool calls and shuts its connections; a "
        "thread that sleeps before a retry ends at its next request, and a thread within a "
        "tool of smolagents' own ends when that does.",
    ),
)


class SmolagentsRunner(ConversationRunner):
    """Runs tasks through a `ToolCallingAgent`."""

    async def open(self, binding: AgentBinding, context: RunContext) -> Conversation:
        """See `ConversationRunner.open`.

        Raises:
            InvalidInput: An option, a tool that smolagents cannot have, or an instrument of another
                harness.
            PluginError: The factory of the user's own agent failed.
        """
        refuse_unknown("smolagents", context.options, ())
        instrument = context.instrument
        if instrument is not None and not isinstance(instrument, SmolagentsInstrument):
            raise InvalidInput(
                f"smolagents is watched by SmolagentsInstrument, not by {type(instrument).__name__}"
            )
        from smolagents import LogLevel, MultiStepAgent, ToolCallingAgent

        threads, announced = TurnThreads(), AnnouncedCalls()

        def call(name: str, arguments: Any, call_id: str | None) -> str:
            return threads.call(lambda: binding.call(name, arguments, call_id=call_id)).text

        tools = binding_tools(binding.tools, announced, call)
        held = AsyncExitStack()
        client = copying_client(threads.before_request)
        held.callback(client.close)
        model = _model(context, instrument, client)
        if context.own_agent is None:
            agent = ToolCallingAgent(
                tools=tools,
                model=model,
                instructions=binding.system_prompt,
                verbosity_level=LogLevel.OFF,
            )
        else:
            parts = AgentParts(model, tools, binding.system_prompt, held)
            try:
                agent = await context.own_agent.build(parts, MultiStepAgent, "an agent of smolagents")
            except BaseException:
                await held.aclose()
                raise
            if instrument is not None:
                instrument.watch_managed(agent)
        return SmolagentsConversation(agent, context, threads, announced, held)


@dataclass(frozen=True, slots=True)
class _Turn:
    """What one user line led to."""

    output: Any
    steps: Sequence[Any]
    """What the memory has gained, the user's line first."""


class SmolagentsConversation:
    """One agent and its memory (implements `atp.protocol.runner.Conversation`).

    Args:
        agent: A `MultiStepAgent` whose tools call the binding through `threads`.
        context: Of the attempt.
        threads: Where its turns run.
        announced: Where its tools find their call ids.
        held: What to let go of at the end.
    """

    def __init__(
        self,
        agent: Any,
        context: RunContext,
        threads: TurnThreads,
        announced: AnnouncedCalls,
        held: AsyncExitStack,
    ) -> None:
        self._agent = agent
        self._context = context
        self._threads = threads
        self._announced = announced
        self._held = held
        self._calls = 0
        self._steps = 0
        self._errors: list[str] = []

    async def send(self, parts: Sequence[Part]) -> Reply:
        """See `Conversation.send`.

        Raises:
            InvalidInput: A part that is not text.
            smolagents.utils.AgentGenerationError: The model cannot be reached or its reply not be read.
        """
        line = "\n\n".join(texts_of("smolagents", parts))
        limit = self._context.limits.max_turns
        if limit is not None and limit <= self._calls:
            return Reply(stop_reason=StopReason.MAX_TURNS, usage=None, model_calls=0, response_ids=())
        left = None if limit is None else limit - self._calls
        try:
            turn = await self._threads.run(partial(self._run, line, left))
        except BaseException:
            # A cancel, above all: the thread goes on until it is made to end.
            self._agent.interrupt()
            raise
        return self._reply(turn)

    async def close(self) -> None:
        """See `Conversation.close`."""
        if self._context.instrument is not None:
            # What is open now was cut short: the recorder knows by what.
            self._context.instrument.close()
        await self._threads.stop()
        await self._held.aclose()

    def _run(self, line: str, max_steps: int | None) -> _Turn:
        from smolagents import ActionStep, FinalAnswerStep
        from smolagents.memory import ToolCall

        before = len(self._agent.memory.steps)
        output: Any = None
        for event in self._agent.run(line, stream=True, reset=False, max_steps=max_steps):
            if isinstance(event, ToolCall):
                # An empty object stands for whatever is false: so the agent calls the tool.
                self._announced.announce(event.name, event.arguments or {}, event.id)
            elif isinstance(event, ActionStep):
                self._announced.clear()
            elif isinstance(event, FinalAnswerStep):
                output = event.output
        return _Turn(output, self._agent.memory.steps[before:])

    def _reply(self, turn: _Turn) -> Reply:
        from smolagents import ActionStep, PlanningStep
        from smolagents.utils import AgentMaxStepsError

        # The forced last call is a step without a message: the memory keeps its text, or, as a list,
        # what kept it from coming.
        steps = [step for step in turn.steps if isinstance(step, ActionStep)]
        at_limit = isinstance(steps[-1].error, AgentMaxStepsError)
        forced = steps[-1].action_output if at_limit and isinstance(steps[-1].action_output, str) else None
        replies = [step.model_output_message for step in steps if step.model_output_message is not None]
        ids = [getattr(reply.raw, "id", None) for reply in replies]
        usages = [step.token_usage for step in steps]
        made = len(replies) + (forced is not None)
        self._calls += made
        self._steps += len(steps)
        self._errors += [type(step.error).__name__ for step in steps if step.error is not None]
        counted = not self._agent.managed_agents and not any(
            isinstance(step, PlanningStep) for step in turn.steps
        )
        return Reply(
            text=forced if at_limit else _answer(turn.output),
            stop_reason=StopReason.MAX_TURNS if at_limit else StopReason.ANSWERED,
            usage=Usage.total(_usage(usage) for usage in usages) if counted and None not in usages else None,
            model_calls=made if counted else None,
            response_ids=tuple(ids) if counted and None not in ids and not at_limit else None,
            native={
                "state": "max_steps_error" if at_limit else "success",
                "steps": self._steps,
                "errors": list(self._errors),
            },
        )


def _model(context: RunContext, instrument: SmolagentsInstrument | None, client: Any) -> Any:
    from smolagents import OpenAIModel

    chosen: dict[str, Any] = {}
    if context.sampling.temperature is not None:
        chosen["temperature"] = context.sampling.temperature
    if context.sampling.max_output_tokens is not None:
        chosen["max_completion_tokens"] = context.sampling.max_output_tokens
    client_kwargs: dict[str, Any] = {"http_client": client}
    if context.limits.model_timeout is not None:
        client_kwargs["timeout"] = context.limits.model_timeout
    kind = OpenAIModel if instrument is None else instrument.watched_model
    return kind(
        model_id=context.model.model,
        api_base=context.model.base_url,
        api_key=context.model.api_key.get_secret_value(),
        client_kwargs=client_kwargs,
        **chosen,
    )


def _usage(usage: Any) -> Usage:
    return Usage.said(input_tokens=usage.input_tokens, output_tokens=usage.output_tokens)


def _answer(output: Any) -> str | None:
    """The argument of `final_answer`: a string as it is, anything else as JSON. What code gives and JSON
    does not have is put down as Python says it."""
    if output is None or isinstance(output, str):
        return None if output is None else str(output)
    return json.dumps(output, ensure_ascii=False, default=str)

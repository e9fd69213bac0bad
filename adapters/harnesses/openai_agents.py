"""OpenAI Agents SDK: an `Agent` with function tools, run by `Runner`, as its documentation has it.

The loop, the model clients with their retries, the tool calls and the memory are the SDK's own. A
dialogue goes on in one of the SDK's sessions (`SQLiteSession`, in memory): that is the documented way
for runs that follow each other, where `to_input_list` is meant for programs that manage the history
themselves. A task without a user is one run, and needs no session.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack
from typing import TYPE_CHECKING, Any

from pydantic_core import to_json

from atp.protocol.binding import AgentBinding
from atp.protocol.cards import HarnessCard
from atp.protocol.environment import ToolSpec
from atp.protocol.errors import InvalidInput, PluginError
from atp.protocol.harness_options import flag, refuse_unknown, texts_of
from atp.protocol.model import Dialect
from atp.protocol.own_agents import AgentParts
from atp.protocol.runner import Conversation, ConversationRunner, Reply, RunContext
from atp.protocol.status import StopReason
from atp.protocol.task import Part
from atp.protocol.trace import Usage
from monitor.instruments.openai_agents import OpenAIAgentsInstrument
from monitor.instruments.openai_agents_hooks import keep_traces_here
from monitor.instruments.openai_http import http_clients

if TYPE_CHECKING:
    from agents import Agent, FunctionTool, Model, ModelProvider, RunConfig, SQLiteSession, TResponseInputItem
    from agents import Usage as AgentsUsage
    from agents.result import RunResultBase
    from agents.tool_context import ToolContext

_STREAM, _DIALECT = "stream", "dialect"

CARD = HarnessCard(
    name="openai-agents",
    title="OpenAI Agents SDK",
    package="openai-agents",
    version="0.24.0",
    dialects=(Dialect.OPENAI_CHAT, Dialect.OPENAI_RESPONSES),
    runner="adapters.harnesses.openai_agents:OpenAIAgentsRunner",
    instrument="monitor.instruments.openai_agents:OpenAIAgentsInstrument",
    requirements="adapters/harnesses/openai_agents.txt",
    extra="openai-agents",
    schema_on_wire='verbatim, with `"strict": false` beside it',
    unknown_tool="ends",
    soft_turn_limit=(
        "`max_turns` counts model calls; it raises MaxTurnsExceeded after the tools of the last allowed "
        "one, without a partial answer"
    ),
    retries=(
        "the openai client: twice, after 408, 409, 429, 5xx and lost connections, after half a second and "
        "more or as long as Retry-After says; the SDK's own are off by default; `timeout` is of each try, "
        "and of a stream of the pause between two pieces"
    ),
    preload=(
        "agents",
        "agents.memory.sqlite_session",
        "openai.resources.chat.completions",
        "openai.resources.responses",
    ),
    agent_packages=("agents",),
    own_agent_notes=(
        "Every agent is made with `model=parts.model`; one with none or with a name is refused. What was "
        "asked for of sampling holds for all agents of a run (`RunConfig.model_settings`).",
        "In a dialogue the agent that spoke last hears the user's next line.",
        "Handoffs, agents as tools and MCP servers are the agent's own: their calls are seen in the model "
        "spans, and do not pass the binding.",
    ),
    options={
        _DIALECT: "openai-chat (default) or openai-responses: the API that the model is asked through",
        _STREAM: "true: `Runner.run_streamed`, usage included (`include_usage`); default false",
    },
    notes=(
        "Traces are not exported: the instrument takes the place of the SDK's processors.",
        "Function tools get the model's arguments as text. Text that is no JSON goes to the binding as it "
        "is, whose answer the model reads; empty text means no arguments, as in the SDK's own "
        "`function_tool`.",
        "A tool that the model invents ends the run with ModelBehaviorError; so does, of the responses "
        "API, a reply cut at its token limit, and of chat completions one without any text.",
        "A tool that raises ends the run with UserError; tools of the binding give text instead.",
        "A refusal ends the run with ModelRefusalError, and so does a chat completion that a filter left "
        "empty; of one that a filter cut short the SDK takes the text for the answer.",
        "The SDK's usage has 0 where the provider says nothing; its own sum is unknown where a reply came "
        "without usage, and counts of 0 cached or reasoning tokens are taken to be unknown.",
        "A session drops an earlier tool call whose id comes again in the same dialogue.",
    ),
)


class OpenAIAgentsRunner(ConversationRunner):
    """Runs tasks through `Runner.run`."""

    async def open(self, binding: AgentBinding, context: RunContext) -> Conversation:
        """See `ConversationRunner.open`.

        Raises:
            InvalidInput: An unknown option, or an instrument of another harness.
            PluginError: The factory of the user's own agent failed.
        """
        stream = _stream(context.options)
        instrument = context.instrument
        if instrument is not None and not isinstance(instrument, OpenAIAgentsInstrument):
            raise InvalidInput(
                f"openai-agents is watched by OpenAIAgentsInstrument, not by {type(instrument).__name__}"
            )
        from agents import Agent, ModelSettings, RunConfig, SQLiteSession

        keep_traces_here()
        held = AsyncExitStack()
        http_client, _ = await held.enter_async_context(http_clients())
        model = _model(context, http_client)
        settings = ModelSettings(
            temperature=context.sampling.temperature,
            max_tokens=context.sampling.max_output_tokens,
            # Of streamed chat completions; the other ways of asking give usage unasked.
            include_usage=stream or None,
        )
        run_config = RunConfig(tracing_disabled=instrument is None, trace_include_sensitive_data=True)
        tools = [function_tool(binding, tool) for tool in binding.tools]
        if context.own_agent is None:
            agent = Agent[Any](
                name="agent",
                instructions=binding.system_prompt,
                tools=list(tools),
                model=model,
                model_settings=settings,
            )
        else:
            run_config.model_provider, run_config.model_settings = _no_other_model(), settings
            parts = AgentParts(model, tools, binding.system_prompt, held)
            try:
                agent = await context.own_agent.build(parts, Agent, "an Agent of the OpenAI Agents SDK")
            except BaseException:
                await held.aclose()
                raise
        session = SQLiteSession(context.run_id) if binding.has_user else None
        if session is not None:
            held.callback(session.close)
        names = frozenset(tool.name for tool in binding.tools)
        return OpenAIAgentsConversation(agent, session, names, context, instrument, run_config, stream, held)


class OpenAIAgentsConversation:
    """One agent and its session (implements `atp.protocol.runner.Conversation`).

    Args:
        agent: Whom the user speaks to.
        session: Its memory between runs; None when there is one run only.
        tools: Names of the binding's tools.
        context: Of the attempt.
        instrument: Who listens; None without a monitor.
        run_config: Of each run.
        stream: Whether to ask for streams.
        held: What to let go of at the end.
    """

    def __init__(
        self,
        agent: Agent[Any],
        session: SQLiteSession | None,
        tools: frozenset[str],
        context: RunContext,
        instrument: OpenAIAgentsInstrument | None,
        run_config: RunConfig,
        stream: bool,
        held: AsyncExitStack,
    ) -> None:
        self._agent = agent
        self._session = session
        self._tools = tools
        self._context = context
        self._instrument = instrument
        self._run_config = run_config
        self._stream = stream
        self._held = held
        self._calls = 0

    async def send(self, parts: Sequence[Part]) -> Reply:
        """See `Conversation.send`.

        Raises:
            InvalidInput: A part that is not text.
            agents.exceptions.MaxTurnsExceeded: `max_turns` model calls were made without an answer.
            agents.exceptions.ModelBehaviorError: The model called a tool that does not exist, or its
                reply was cut short.
        """
        limit = self._context.limits.max_turns
        left = None if limit is None else limit - self._calls
        if left == 0:
            return Reply(stop_reason=StopReason.MAX_TURNS, usage=None, model_calls=0, response_ids=())
        with ExitStack() as watched:
            if self._instrument is not None:
                watched.enter_context(self._instrument.watching(self._context.model.model, self._tools))
            result = await self._run(_input(parts), left)
        used = result.context_wrapper.usage
        self._calls += used.requests
        # The agent's own at first, and after a handoff the one that has taken over.
        self._agent = result.last_agent
        return Reply(
            text=_answer(result.final_output),
            usage=_usage(used),
            model_calls=used.requests,
            # Responses to agents that it calls as tools are counted, but not kept.
            response_ids=_response_ids(result) if len(result.raw_responses) == used.requests else None,
            native={"requests": self._calls, "last_agent": result.last_agent.name},
        )

    async def close(self) -> None:
        """See `Conversation.close`."""
        await self._held.aclose()

    async def _run(self, said: str | list[TResponseInputItem], max_turns: int | None) -> RunResultBase:
        from agents import Runner

        options: dict[str, Any] = {
            "max_turns": max_turns,
            "session": self._session,
            "hooks": self._instrument.hooks if self._instrument is not None else None,
            "run_config": self._run_config,
        }
        if not self._stream:
            return await Runner.run(self._agent, said, **options)
        result = Runner.run_streamed(self._agent, said, **options)
        try:
            async for _ in result.stream_events():
                pass
        finally:
            # The run goes on in a task of its own: it must not outlive the attempt.
            if result.run_loop_task is not None and not result.run_loop_task.done():
                result.cancel()
                await asyncio.wait({result.run_loop_task})
        if result.run_loop_exception is not None:
            raise result.run_loop_exception
        return result


def function_tool(binding: AgentBinding, tool: ToolSpec) -> FunctionTool:
    """A tool of the binding as a tool of the SDK, its JSON Schema given as it is."""
    from agents import FunctionTool

    async def invoke(context: ToolContext[Any], arguments: str) -> str:
        result = await binding.call(tool.name, _arguments(arguments), call_id=context.tool_call_id)
        return result.text

    return FunctionTool(
        name=tool.name,
        description=tool.description,
        params_json_schema=dict(tool.parameters),
        on_invoke_tool=invoke,
        strict_json_schema=False,
    )


def _arguments(text: str) -> Any:
    """The arguments; text that cannot be read goes on as it is, for the binding to refuse."""
    if not text:
        return {}
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _model(context: RunContext, http_client: Any) -> Model:
    from agents import OpenAIChatCompletionsModel, OpenAIResponsesModel
    from openai import AsyncOpenAI

    chosen: dict[str, Any] = {}
    if context.limits.model_timeout is not None:
        chosen["timeout"] = context.limits.model_timeout
    client = AsyncOpenAI(
        base_url=context.model.base_url,
        api_key=context.model.api_key.get_secret_value(),
        http_client=http_client,
        **chosen,
    )
    if context.model.dialect is Dialect.OPENAI_RESPONSES:
        return OpenAIResponsesModel(context.model.model, client)
    return OpenAIChatCompletionsModel(context.model.model, client)


def _no_other_model() -> ModelProvider:
    """Refuses agents that do not have the attempt's model: the SDK would send one without a model the
    parameters of its own default, and another provider's key is not in the worker."""
    from agents import ModelProvider

    class NoOtherModel(ModelProvider):
        def get_model(self, model_name: str | None) -> Model:
            named = "no model" if model_name is None else f"the model {model_name!r} by its name"
            raise PluginError(f"an agent asks for {named}: each is to be made with `model=parts.model`")

    return NoOtherModel()


def _stream(options: Mapping[str, Any]) -> bool:
    refuse_unknown("openai-agents", options, (_DIALECT, _STREAM))
    return flag(options, _STREAM) or False


def _input(parts: Sequence[Part]) -> str | list[TResponseInputItem]:
    texts = texts_of("openai-agents", parts)
    if len(texts) == 1:
        return texts[0]
    return [{"role": "user", "content": [{"type": "input_text", "text": text} for text in texts]}]


def _answer(output: Any) -> str | None:
    """Text as it is; the structured output that an agent of one's own may have, as JSON."""
    if output is None or isinstance(output, str):
        return output
    return to_json(output, fallback=str).decode()


def _usage(usage: AgentsUsage) -> Usage | None:
    """The SDK's own sum; None when a reply of it came without usage."""
    if usage.requests != len(usage.request_usage_entries):
        return None
    read, written = usage.input_tokens_details, usage.output_tokens_details
    return Usage.said(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=read.cached_tokens or None,
        cache_write_tokens=getattr(read, "cache_write_tokens", None) or None,
        reasoning_tokens=written.reasoning_tokens or None,
    )


def _response_ids(result: RunResultBase) -> tuple[str, ...] | None:
    """As the SDK keeps them: on the response, or of a chat completion on what it made of it, if it made
    anything."""
    from agents.models.fake_id import FAKE_RESPONSES_ID

    ids: list[str] = []
    for response in result.raw_responses:
        kept = [(getattr(item, "provider_data", None) or {}).get("response_id") for item in response.output]
        known = next(filter(None, kept), response.response_id)
        if known is None or known == FAKE_RESPONSES_ID:
            return None
        ids.append(known)
    return tuple(ids)

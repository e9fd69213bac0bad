"""Google's Agent Development Kit: an `LlmAgent` run by `Runner`, as its documentation has it.

The loop, the model clients, the tool calls and the memory are ADK's own. A conversation is one session of
its `InMemorySessionService`, so each line is answered with all that was said before.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack, ExitStack, aclosing
from typing import Any

from adapters.harnesses.google_adk_models import adk_model
from adapters.harnesses.google_adk_options import DESCRIBED, Options
from adapters.harnesses.google_adk_replies import LineReplies
from adapters.harnesses.google_adk_sampling import sampling_plugin
from adapters.harnesses.google_adk_tools import binding_tools
from atp.protocol.binding import AgentBinding
from atp.protocol.cards import HarnessCard
from atp.protocol.errors import InvalidInput
from atp.protocol.harness_options import texts_of
from atp.protocol.model import Dialect
from atp.protocol.own_agents import AgentParts
from atp.protocol.runner import Conversation, ConversationRunner, Reply, RunContext
from atp.protocol.status import StopReason
from atp.protocol.task import Part
from monitor.instruments.google_adk import GoogleADKInstrument

_APP, _USER = "atp", "user"

CARD = HarnessCard(
    name="google-adk",
    title="Google Agent Development Kit",
    package="google-adk",
    version="2.13.0",
    dialects=(Dialect.GEMINI, Dialect.OPENAI_CHAT, Dialect.OPENAI_RESPONSES),
    runner="adapters.harnesses.google_adk:GoogleADKRunner",
    instrument="monitor.instruments.google_adk:GoogleADKInstrument",
    requirements="adapters/harnesses/google_adk.txt",
    extra="google-adk",
    schema_on_wire='verbatim; in the responses dialect with `"strict": false` beside it',
    prompt_on_wire="within",
    results_on_wire="object",
    soft_turn_limit=(
        "`RunConfig.max_llm_calls` (500 by default, per user line) counts model calls; the one beyond it is "
        "not made: it raises LlmCallsLimitExceededError after the tools of the last allowed one, without a "
        "partial answer"
    ),
    retries=(
        "Gemini: nothing, since ADK gives Google's client no `retry_options` by default; where `-o "
        "harness.retries` asks for it, after 408, 429, 5xx and lost connections, after a second and more, "
        "doubled each time. OpenAI: the openai client, twice, after 408, 409, 429, 5xx and lost connections, "
        "after half a second and more or as long as Retry-After says. `timeout` is of each try, and of a "
        "stream of the pause between two pieces"
    ),
    # Gemini's own API by the attempt's key, not the one of Google Cloud; no spans of Google's client.
    environment={"GOOGLE_GENAI_USE_ENTERPRISE": "false"},
    preload=(
        "google.adk.agents",
        "google.adk.agents.run_config",
        "google.adk.integrations.openai",
        "google.adk.models",
        "google.adk.plugins",
        "google.adk.runners",
        "google.adk.sessions",
    ),
    agent_packages=("google",),
    own_agent_notes=(
        "Agents are made with `model=parts.model`: another model is asked by a client of its own, whose key "
        "is not in the worker; what it answers is known by ADK's account alone, and its span begins when it "
        "has answered.",
        "What was asked for of sampling holds for all agents of a run: a plugin puts it into each request.",
        "In a dialogue ADK chooses who hears the user's next line: the agent that spoke last, if it may hand "
        "over again.",
        "There are no counts of its own: an agent that another calls as a tool runs in a session of its own.",
        "`max_llm_calls` counts for each such session anew; from outside `max_turns` counts them all.",
    ),
    options=DESCRIBED,
    notes=(
        'ADK adds to the system prompt: `You are an agent. Your internal name is "agent".`',
        "The system prompt is given as a function (`InstructionProvider`): a text would be a template, whose "
        "braces ADK fills in.",
        'Tool results go out as `{"result": text}`: Gemini takes objects only, and ADK\'s OpenAI models '
        "write the same object as JSON text.",
        "ADK's OpenAI model for chat completions asks for 4096 tokens at most by default; it is told to ask "
        "for none, as the others are.",
        "Calls to which the model gives no id, as most Gemini models do, get one of ADK's own (`adk-...`), "
        "which is not sent to the model; they are recorded as calls without a model's id.",
        "Malformed arguments cannot come from Gemini; of those of OpenAI's APIs ADK makes an empty object, "
        "and calls the tool with it.",
        "A tool that the model invents is answered by ADK itself and never reaches the binding.",
        "A tool that raises ends the run with its exception.",
        "A reply without content is an error of ADK's, by which the run ends `harness_error`, or "
        "`content_filter` where the provider says so.",
        "Reasoning is sent back to Gemini as the thoughts it came in; ADK's OpenAI models send none back.",
        "Model spans come from a plugin of the `Runner` and from the HTTP clients that ADK's models take: "
        "the plugin knows no response ids, and ADK's own OTel spans need the global provider.",
    ),
)


class GoogleADKRunner(ConversationRunner):
    """Runs tasks through `Runner.run_async`."""

    async def open(self, binding: AgentBinding, context: RunContext) -> Conversation:
        """See `ConversationRunner.open`.

        Raises:
            InvalidInput: An unknown option, or an instrument of another harness.
            PluginError: The factory of the user's own agent failed.
        """
        options = Options.of(context.options)
        instrument = context.instrument
        if instrument is not None and not isinstance(instrument, GoogleADKInstrument):
            raise InvalidInput(
                f"google-adk is watched by GoogleADKInstrument, not by {type(instrument).__name__}"
            )
        from google.adk.agents import BaseAgent, LlmAgent
        from google.adk.runners import Runner
        from google.adk.sessions import InMemorySessionService

        if instrument is not None:
            names = frozenset(tool.name for tool in binding.tools)
            instrument.speaks(
                context.model.dialect, options.stream, names if context.own_agent is None else None
            )
        held = AsyncExitStack()
        try:
            model = await adk_model(context, options.retries, held)
            tools = binding_tools(binding, instrument)
            if context.own_agent is None:
                agent = LlmAgent(
                    name="agent",
                    model=model,
                    instruction=_as_it_is(binding.system_prompt),
                    tools=tools,
                    generate_content_config=_sampling(context),
                )
            else:
                parts = AgentParts(model, tools, binding.system_prompt, held)
                agent = await context.own_agent.build(parts, BaseAgent, "an agent of ADK")
            plugins = [instrument.plugin] if instrument is not None else []
            if context.own_agent is not None:
                plugins.append(sampling_plugin(context.sampling))
            sessions = InMemorySessionService()
            runner = Runner(
                app_name=_APP,
                agent=agent,
                session_service=sessions,
                plugins=plugins,
            )
            held.push_async_callback(runner.close)
            await sessions.create_session(app_name=_APP, user_id=_USER, session_id=context.run_id)
        except BaseException:
            await held.aclose()
            raise
        return GoogleADKConversation(runner, context, instrument, options.stream, held)


class GoogleADKConversation:
    """One session of an agent (implements `atp.protocol.runner.Conversation`).

    Args:
        runner: ADK's, with the session that is called as the attempt is.
        context: Of the attempt.
        instrument: Who listens; None without a monitor.
        stream: Whether to ask for streams.
        held: What to let go of at the end.
    """

    def __init__(
        self,
        runner: Any,
        context: RunContext,
        instrument: GoogleADKInstrument | None,
        stream: bool,
        held: AsyncExitStack,
    ) -> None:
        self._runner = runner
        self._context = context
        self._instrument = instrument
        self._stream = stream
        self._held = held
        self._calls = 0

    async def send(self, parts: Sequence[Part]) -> Reply:
        """See `Conversation.send`.

        Raises:
            InvalidInput: A part that is not text.
            google.adk.agents.invocation_context.LlmCallsLimitExceededError: `max_turns` model calls were
                made without an answer.
        """
        limit = self._context.limits.max_turns
        left = None if limit is None else limit - self._calls
        if left is not None and left <= 0:
            return Reply(stop_reason=StopReason.MAX_TURNS, usage=None, model_calls=0, response_ids=())
        replies = LineReplies(self._context.model.dialect)
        with ExitStack() as watched:
            if self._instrument is not None:
                watched.enter_context(self._instrument.watching())
            events = self._runner.run_async(
                user_id=_USER,
                session_id=self._context.run_id,
                new_message=_message(parts),
                run_config=self._config(left),
            )
            # The run must not outlive the attempt.
            async with aclosing(events) as told:
                async for event in told:
                    replies.add(event)
        if self._context.own_agent is not None:
            return replies.answer()
        self._calls += replies.count
        return replies.reply()

    async def close(self) -> None:
        """See `Conversation.close`."""
        await self._held.aclose()

    def _config(self, left: int | None) -> Any:
        from google.adk.agents.run_config import RunConfig, StreamingMode

        chosen: dict[str, Any] = {} if left is None else {"max_llm_calls": left}
        if self._stream:
            chosen["streaming_mode"] = StreamingMode.SSE
        return RunConfig(**chosen)


def _as_it_is(prompt: str | None) -> Any:
    """The system prompt as a function gives it: ADK takes a text for a template."""
    return "" if prompt is None else lambda context: prompt


def _sampling(context: RunContext) -> Any:
    from google.genai.types import GenerateContentConfig

    return GenerateContentConfig(
        temperature=context.sampling.temperature, max_output_tokens=context.sampling.max_output_tokens
    )


def _message(parts: Sequence[Part]) -> Any:
    from google.genai import types

    texts = [types.Part(text=text) for text in texts_of("google-adk", parts)]
    return types.Content(role="user", parts=texts)

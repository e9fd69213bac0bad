"""LangGraph: `create_agent` with ChatOpenAI, as its documentation has it.

The loop, the model client with its retries, the tool node and the memory are LangGraph's own. A
conversation is one thread of an in-memory checkpointer, so each line is answered with all that was
said before.

The messages of the final state are no artifact: the spans of model and tool calls hold each of them,
and hold it once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from adapters.harnesses.langgraph_tools import CallsFromThreads, binding_tools
from atp.protocol.binding import AgentBinding
from atp.protocol.cards import HarnessCard
from atp.protocol.errors import InvalidInput, PluginError
from atp.protocol.harness_options import flag, refuse_unknown, texts_of
from atp.protocol.model import Dialect
from atp.protocol.own_agents import AgentParts
from atp.protocol.runner import Conversation, ConversationRunner, Reply, RunContext
from atp.protocol.status import StopReason
from atp.protocol.task import Part
from atp.protocol.trace import Usage
from monitor.instruments.langgraph import LangGraphInstrument
from monitor.instruments.openai_http import http_clients

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage
    from langchain_core.runnables import RunnableConfig
    from langchain_openai import ChatOpenAI

_STREAM = "stream"

_models: WeakValueDictionary[tuple[object, ...], ChatOpenAI] = WeakValueDictionary()

CARD = HarnessCard(
    name="langgraph",
    title="LangGraph",
    package="langgraph",
    version="1.2.24",
    dialects=(Dialect.OPENAI_CHAT,),
    runner="adapters.harnesses.langgraph:LangGraphRunner",
    instrument="monitor.instruments.langgraph:LangGraphInstrument",
    requirements="adapters/harnesses/langgraph.txt",
    extra="langgraph",
    preload=("langchain.agents", "langchain_openai", "langgraph.checkpoint.memory"),
    schema_on_wire="verbatim, except that `title` is dropped and `$ref` is replaced by what it names",
    wire_schema="adapters.harnesses.langgraph_schema:wire_parameters",
    soft_turn_limit=(
        "`recursion_limit` counts graph steps, one per model call and one per round of tools; it raises "
        "GraphRecursionError after the tools of the last allowed model call, without a partial answer"
    ),
    retries=(
        "the openai client: twice, after 408, 409, 429, 5xx and lost connections, after half a second and "
        "more or as long as Retry-After says; `timeout` is of each try, and of a stream of the pause between "
        "two pieces"
    ),
    environment={
        "LANGSMITH_TRACING": "false",
        "LANGSMITH_TRACING_V2": "false",
        "LANGCHAIN_TRACING": "false",
        "LANGCHAIN_TRACING_V2": "false",
    },
    agent_packages=("langgraph", "langchain", "langchain_core"),
    own_agent_notes=(
        "The graph takes and gives `messages`. One that is compiled without a checkpointer gets one in "
        "memory, for the dialogue to go on.",
        "`max_turns` is held from outside, by the model calls that the instrument sees: the call beyond it "
        "is cut off. The steps of the graph are limited by its own `recursion_limit`.",
        "Counts of its own are not read from the graph: the state does not hold what sub-agents asked.",
        "Of models that a node calls synchronously, neither retries nor reasoning are seen; a node that "
        "runs in a thread goes on until its model call is over when an attempt is cut off.",
    ),
    options={_STREAM: "true: ask the model for a stream, usage included (`stream_usage`); default false"},
    notes=(
        "The HTTP client is the openai SDK's own default one, given through `http_async_client` so that "
        "responses can be copied; LangChain's default adds TCP keep-alive options to it.",
        "Malformed arguments: a whole reply makes them an invalid tool call, which the agent does not "
        "execute and ends with; of a stream LangChain completes them where it can and executes that.",
        "A tool that the model invents is answered by the tool node itself and never reaches the binding.",
    ),
)


class LangGraphRunner(ConversationRunner):
    """Runs tasks through `create_agent`."""

    async def open(self, binding: AgentBinding, context: RunContext) -> Conversation:
        """See `ConversationRunner.open`.

        Raises:
            InvalidInput: An unknown option, or an instrument of another harness.
            PluginError: The factory of the user's own graph failed, or the graph has no `messages`.
        """
        stream = _stream(context.options)
        instrument = context.instrument
        if instrument is not None and not isinstance(instrument, LangGraphInstrument):
            raise InvalidInput(
                f"langgraph is watched by LangGraphInstrument, not by {type(instrument).__name__}"
            )
        held = AsyncExitStack()
        http_async_client, http_client = await held.enter_async_context(http_clients())
        # What the code of somebody's own agent does to a model must not reach other attempts.
        made = chat_model if context.own_agent is None else _chat_model
        model = made(context, stream, http_async_client, http_client)
        try:
            graph = await _graph(model, binding, context, held)
        except BaseException:
            await held.aclose()
            raise
        return LangGraphConversation(graph, context, instrument, held)


async def _graph(model: ChatOpenAI, binding: AgentBinding, context: RunContext, held: AsyncExitStack) -> Any:
    from langgraph.checkpoint.memory import InMemorySaver

    calls = CallsFromThreads()
    held.callback(calls.stop)
    tools = binding_tools(binding, calls)
    if context.own_agent is None:
        from langchain.agents import create_agent

        return create_agent(model, tools, system_prompt=binding.system_prompt, checkpointer=InMemorySaver())
    from langgraph.pregel import Pregel

    parts = AgentParts(model, tools, binding.system_prompt, held)
    graph = await context.own_agent.build(parts, Pregel, "a compiled LangGraph graph")
    if "messages" not in graph.channels:
        # Those of the state are beside LangGraph's own.
        keys = [name for name in graph.channels if ":" not in name and not name.startswith("__")]
        raise PluginError(
            f"{context.own_agent.source.path}: its graph's state has no `messages`, but {', '.join(keys)}"
        )
    return graph if graph.checkpointer is not None else graph.copy({"checkpointer": InMemorySaver()})


class LangGraphConversation:
    """One thread of a graph (implements `atp.protocol.runner.Conversation`).

    Args:
        graph: A compiled graph with a checkpointer, whose state holds `messages`.
        context: Of the attempt.
        instrument: Whose handler listens; None without a monitor.
        held: What to let go of at the end.
    """

    def __init__(
        self, graph: Any, context: RunContext, instrument: LangGraphInstrument | None, held: AsyncExitStack
    ) -> None:
        self._graph = graph
        self._context = context
        self._instrument = instrument
        self._held = held
        self._seen = 0
        self._calls = 0
        self._finish_reasons: list[str | None] = []

    async def send(self, parts: Sequence[Part]) -> Reply:
        """See `Conversation.send`.

        Raises:
            InvalidInput: A part that is not text.
            langgraph.errors.GraphRecursionError: `max_turns` model calls were made without an answer.
        """
        config = self._config()
        if config is None:
            return Reply(stop_reason=StopReason.MAX_TURNS, usage=None, model_calls=0, response_ids=())
        state = await self._graph.ainvoke({"messages": [_user_message(parts)]}, config)
        messages = state["messages"]
        if self._context.own_agent is not None:
            return _reply_of_own_graph(messages)
        replies: list[AIMessage] = [message for message in messages[self._seen :] if message.type == "ai"]
        self._seen = len(messages)
        self._calls += len(replies)
        self._finish_reasons += [reply.response_metadata.get("finish_reason") for reply in replies]
        usages = [_usage(reply) for reply in replies]
        ids = [reply.response_metadata.get("id") for reply in replies]
        return Reply(
            text=str(replies[-1].text) if replies else None,
            stop_reason=_stop_reason(self._finish_reasons[-1] if replies else None),
            usage=Usage.total(usage for usage in usages if usage) if None not in usages else None,
            model_calls=len(replies),
            response_ids=tuple(ids) if None not in ids else None,
            native={"messages": len(messages), "finish_reasons": list(self._finish_reasons)},
        )

    async def close(self) -> None:
        """See `Conversation.close`."""
        await self._held.aclose()

    def _config(self) -> RunnableConfig | None:
        """None when no model call is left."""
        config: RunnableConfig = {"configurable": {"thread_id": self._context.run_id}}
        if self._instrument is not None:
            config["callbacks"] = [self._instrument.handler]
        limit = self._context.limits.max_turns
        if limit is not None and self._context.own_agent is None:
            if limit <= self._calls:
                return None
            # A model call and its round of tools are a step each: the last round is still run.
            config["recursion_limit"] = 2 * (limit - self._calls)
        return config


def chat_model(context: RunContext, stream: bool, http_async_client: Any, http_client: Any) -> ChatOpenAI:
    """The ChatOpenAI of an attempt, shared with attempts that run now and have the same in all it is made of.

    It keeps no state between calls, and making one costs 2 ms of CPU. Nothing but the attempts holds it, so
    it goes when they do, and with it the HTTP clients.

    Args:
        context: Names the endpoint, the sampling and the model's timeout.
        stream: Whether to ask for streams.
        http_async_client: Of the running event loop.
        http_client: Beside it.
    """
    timeout = context.limits.model_timeout
    key = (http_async_client, http_client, context.model, context.sampling, timeout, stream)
    model = _models.get(key)
    if model is None:
        model = _models[key] = _chat_model(context, stream, http_async_client, http_client)
    return model


def _chat_model(context: RunContext, stream: bool, http_async_client: Any, http_client: Any) -> ChatOpenAI:
    from langchain_openai import ChatOpenAI

    chosen: dict[str, Any] = {}
    if context.sampling.temperature is not None:
        chosen["temperature"] = context.sampling.temperature
    if context.sampling.max_output_tokens is not None:
        chosen["max_tokens"] = context.sampling.max_output_tokens
    if context.limits.model_timeout is not None:
        chosen["timeout"] = context.limits.model_timeout
    if stream:
        chosen["streaming"] = True
    return ChatOpenAI(
        base_url=context.model.base_url,
        api_key=context.model.api_key,
        model=context.model.model,
        stream_usage=True,
        http_async_client=http_async_client,
        http_client=http_client,
        **chosen,
    )


def _stream(options: Mapping[str, Any]) -> bool:
    refuse_unknown("langgraph", options, (_STREAM,))
    return flag(options, _STREAM) or False


def _user_message(parts: Sequence[Part]) -> dict[str, Any]:
    texts = texts_of("langgraph", parts)
    if len(texts) == 1:
        return {"role": "user", "content": texts[0]}
    return {"role": "user", "content": [{"type": "text", "text": text} for text in texts]}


def _stop_reason(finish_reason: str | None) -> StopReason:
    # LangGraph takes what the provider cut off for an answer.
    return StopReason.CONTENT_FILTER if finish_reason == "content_filter" else StopReason.ANSWERED


def _reply_of_own_graph(messages: Sequence[Any]) -> Reply:
    # What its nodes have made of the messages says nothing certain of its model calls.
    last = messages[-1] if messages else None
    return Reply(
        text=str(last.text) if last is not None and last.type == "ai" else None,
        native={"messages": len(messages)},
    )


def _usage(message: AIMessage) -> Usage | None:
    usage = message.usage_metadata
    if usage is None:
        return None
    read, written = usage.get("input_token_details") or {}, usage.get("output_token_details") or {}
    return Usage.said(
        input_tokens=usage["input_tokens"],
        output_tokens=usage["output_tokens"],
        cache_read_tokens=read.get("cache_read"),
        cache_write_tokens=read.get("cache_creation"),
        reasoning_tokens=written.get("reasoning"),
    )

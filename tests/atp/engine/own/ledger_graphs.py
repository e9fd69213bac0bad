"""Graphs of somebody's own, made with LangGraph."""

from __future__ import annotations

from typing import Any, TypedDict

from langchain.agents import create_agent
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.state import CompiledStateGraph

from atp.protocol.own_agents import AgentParts


def clerk_and_teller(parts: AgentParts) -> CompiledStateGraph[Any, Any, Any, Any]:
    """Two agents in a row: one does the work, the other says the answer."""
    graph = StateGraph(MessagesState)
    clerk = create_agent(parts.model, list(parts.tools), system_prompt=parts.system_prompt, name="clerk")
    graph.add_node("clerk", clerk)
    graph.add_node("teller", create_agent(parts.model, [], name="teller"))
    graph.add_edge(START, "clerk")
    graph.add_edge("clerk", "teller")
    graph.add_edge("teller", END)
    return graph.compile()


def anything(parts: AgentParts) -> Any:
    """Does not say what it gives."""
    return clerk_and_teller(parts)


class Silent(TypedDict):
    """A state without messages."""

    answer: str


def silent(parts: AgentParts) -> CompiledStateGraph[Any, Any, Any, Any]:
    """A graph that nobody can talk to."""
    graph = StateGraph(Silent)
    graph.add_node("nothing", lambda state: {"answer": ""})
    graph.add_edge(START, "nothing")
    return graph.compile()


def by_hand(parts: AgentParts) -> CompiledStateGraph[Any, Any, Any, Any]:
    """A loop of synchronous functions, as the first pages of many a tutorial have it."""
    tools = {tool.name: tool for tool in parts.tools}
    model = parts.model.bind_tools(list(parts.tools))

    def think(state: MessagesState) -> dict[str, Any]:
        return {"messages": [model.invoke(state["messages"])]}

    def act(state: MessagesState) -> dict[str, Any]:
        last = state["messages"][-1]
        assert isinstance(last, AIMessage)
        results: list[ToolMessage] = [tools[call["name"]].invoke(call) for call in last.tool_calls]
        return {"messages": results}

    def goes_on(state: MessagesState) -> str:
        last = state["messages"][-1]
        return "act" if isinstance(last, AIMessage) and last.tool_calls else END

    graph = StateGraph(MessagesState)
    graph.add_node("think", think)
    graph.add_node("act", act)
    graph.add_edge(START, "think")
    graph.add_conditional_edges("think", goes_on)
    graph.add_edge("act", "think")
    return graph.compile()


def looks_first(parts: AgentParts) -> CompiledStateGraph[Any, Any, Any, Any]:
    """Its code makes a call that no model has asked for."""
    [balance] = [tool for tool in parts.tools if tool.name == "balance"]

    async def look(state: MessagesState) -> dict[str, Any]:
        await balance.ainvoke({"account": "acc-1"})
        return {"messages": []}

    graph = StateGraph(MessagesState)
    graph.add_node("look", look)
    graph.add_node("clerk", create_agent(parts.model, list(parts.tools), name="clerk"))
    graph.add_edge(START, "look")
    graph.add_edge("look", "clerk")
    return graph.compile()


def by_hand_in_coroutines(parts: AgentParts) -> CompiledStateGraph[Any, Any, Any, Any]:
    """Calls the model synchronously where it should wait for it: the worker stands still for as long."""
    model = parts.model.bind_tools(list(parts.tools))
    tools = {tool.name: tool for tool in parts.tools}

    async def work(state: MessagesState) -> dict[str, Any]:
        messages: list[Any] = list(state["messages"])
        while True:
            messages.append(model.invoke(messages))
            if not messages[-1].tool_calls:
                return {"messages": messages[-1:]}
            messages += [await tools[call["name"]].ainvoke(call) for call in messages[-1].tool_calls]

    graph = StateGraph(MessagesState)
    graph.add_node("work", work)
    graph.add_edge(START, "work")
    return graph.compile()

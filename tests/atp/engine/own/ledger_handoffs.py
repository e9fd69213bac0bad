"""Agents of somebody's own, made with the OpenAI Agents SDK."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from agents import Agent
from agents.mcp import MCPServerStdio

from atp.protocol.own_agents import AgentParts


def reception(parts: AgentParts) -> Agent[Any]:
    """Hands everybody over to the clerk, who has the tools."""
    clerk = Agent[Any](
        name="clerk", instructions=parts.system_prompt, model=parts.model, tools=list(parts.tools)
    )
    return Agent[Any](
        name="reception", instructions="Hand over to the clerk.", model=parts.model, handoffs=[clerk]
    )


async def with_an_expert(parts: AgentParts) -> Agent[Any]:
    """Has another agent as a tool."""
    expert = Agent[Any](name="expert", instructions="Say what you know.", model=parts.model)
    return Agent[Any](
        name="reception",
        model=parts.model,
        tools=[*parts.tools, expert.as_tool("ask_expert", "Ask the expert.")],
    )


def without_a_model(parts: AgentParts) -> Agent[Any]:
    """Leaves the model to the SDK."""
    return Agent[Any](name="reception", tools=list(parts.tools))


async def with_a_server(parts: AgentParts) -> Agent[Any]:
    """Has tools of an MCP server, a process that lives as long as the attempt."""
    server = Path(__file__).with_name("mcp_clock.py")
    clock = await parts.held.enter_async_context(
        MCPServerStdio({"command": sys.executable, "args": [str(server)]}, client_session_timeout_seconds=60)
    )
    return Agent[Any](name="reception", model=parts.model, tools=list(parts.tools), mcp_servers=[clock])

"""Agents of somebody's own, made with smolagents."""

from __future__ import annotations

from smolagents import CodeAgent, ToolCallingAgent

from atp.protocol.own_agents import AgentParts


def manager(parts: AgentParts) -> ToolCallingAgent:
    """Has no tools but a clerk, who has them all."""
    clerk = ToolCallingAgent(
        tools=list(parts.tools), model=parts.model, name="clerk", description="Keeps the ledger."
    )
    return ToolCallingAgent(
        tools=[], model=parts.model, managed_agents=[clerk], instructions=parts.system_prompt
    )


def coder(parts: AgentParts) -> CodeAgent:
    """Calls tools by writing Python."""
    return CodeAgent(tools=list(parts.tools), model=parts.model)

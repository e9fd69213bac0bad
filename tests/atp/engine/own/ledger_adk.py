"""Agents of ADK over the ledger: one that hands over, one that calls another as a tool, two side by side."""

from __future__ import annotations

from google.adk.agents import BaseAgent, LlmAgent, ParallelAgent, SequentialAgent
from google.adk.tools.agent_tool import AgentTool

from atp.protocol.own_agents import AgentParts


def clerk(parts: AgentParts, name: str = "clerk") -> LlmAgent:
    """Does the work."""
    return LlmAgent(name=name, description="Does the work.", model=parts.model, tools=list(parts.tools))


def handover(parts: AgentParts) -> LlmAgent:
    """A reception that hands over to a clerk."""
    return LlmAgent(name="reception", model=parts.model, sub_agents=[clerk(parts)])


def managed(parts: AgentParts) -> LlmAgent:
    """A manager that calls the clerk as a tool."""
    return LlmAgent(name="manager", model=parts.model, tools=[AgentTool(clerk(parts))])


def side_by_side(parts: AgentParts) -> BaseAgent:
    """Two clerks at once, then a teller."""
    both = ParallelAgent(name="both", sub_agents=[clerk(parts, "left"), clerk(parts, "right")])
    return SequentialAgent(name="office", sub_agents=[both, LlmAgent(name="teller", model=parts.model)])

"""Agents of somebody's own, made with CrewAI."""

from __future__ import annotations

from crewai import Agent, Crew, Task

from atp.protocol.own_agents import AgentParts


def crew(parts: AgentParts) -> Crew:
    """A manager without tools, who may delegate to a clerk with all of them."""
    manager = Agent(
        role="manager", goal="See to it.", backstory="", llm=parts.model, allow_delegation=True, tools=[]
    )
    clerk = Agent(
        role="clerk",
        goal="Keep the ledger.",
        backstory=parts.system_prompt or "",
        llm=parts.model,
        tools=list(parts.tools),
    )
    task = Task(description="{task}", expected_output="The answer.", agent=manager)
    return Crew(agents=[manager, clerk], tasks=[task])


def clerk(parts: AgentParts) -> Agent:
    """One agent, with a prompt of its own."""
    return Agent(
        role="clerk", goal="Keep the ledger.", backstory="", llm=parts.model, tools=list(parts.tools)
    )

"""AgentDojo: work in an office, a bank, a chat and a travel agency, with or without injected instructions."""

from adapters.benchmarks.agentdojo.benchmark import AgentDojo

__all__ = ["AgentDojo"]

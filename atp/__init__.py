"""Agent Task Protocol: the protocol and the engine."""

from agent_task_protocol import require_own_packages

require_own_packages()

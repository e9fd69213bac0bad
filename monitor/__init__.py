"""The monitor of Agent Task Protocol: what is recorded of a run, and by what."""

from agent_task_protocol import require_own_packages

require_own_packages()

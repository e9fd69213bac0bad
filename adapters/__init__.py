"""Benchmark and harness adapters of Agent Task Protocol."""

from agent_task_protocol import require_own_packages

require_own_packages()

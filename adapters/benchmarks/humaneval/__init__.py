"""HumanEval: complete a Python function; graded by the official tests."""

from adapters.benchmarks.humaneval.benchmark import HumanEval

__all__ = ["HumanEval"]

"""GSM8K: word problems of grade-school mathematics; graded by the number at the end."""

from adapters.benchmarks.gsm8k.benchmark import Gsm8k

__all__ = ["Gsm8k"]

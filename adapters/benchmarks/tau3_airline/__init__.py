"""τ³-bench airline: serve a customer by tools and words; graded by the database and what was said."""

from adapters.benchmarks.tau3_airline.benchmark import Tau3Airline

__all__ = ["Tau3Airline"]

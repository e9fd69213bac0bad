"""The published rules on awkward answers.

Expected values are what lm_eval 0.4.13 gives: its `RegexFilter` and `exact_match_hf_evaluate`, with the
settings of its own `tasks/gsm8k/gsm8k.yaml` (version 3.0), run on each answer.
"""

from __future__ import annotations

import pytest

from adapters.benchmarks.gsm8k.extraction import flexible, same, strict

AWKWARD = [
    ("18", "#### 18", "18", True, "18", True),
    ("18", "Steps.\n#### 18\n", "18", True, "18", True),
    ("18", "#### 18.", "18.", True, "18.", True),
    ("18", "#### 18.0", "18.0", False, "18.0", False),
    ("18", "#### 18.00", "18.00", False, "18.00", False),
    ("18", "####18", None, False, "18", True),
    ("18", "####  18", None, False, "18", True),
    ("18", "##### 18", "18", True, "18", True),
    ("18", "### 18", None, False, "18", True),
    ("18", "#### $18", None, False, "$18", True),
    ("18", "#### 18 dollars", "18", True, "18", True),
    ("18", "#### **18**", None, False, "18", True),
    ("18", "#### 18\n\nI hope this helps with all 3 parts!", "18", True, "3", False),
    ("18", "#### 17\nNo, wait.\n#### 18", "17", False, "18", True),
    ("18", "#### 18\n#### 17", "18", True, "17", False),
    ("18", "The answer is 18.", None, False, "18.", True),
    ("18", "The answer is $18", None, False, "$18", True),
    ("18", "The answer is **18**", None, False, "18", True),
    ("18", "\\boxed{18}", None, False, "18", True),
    ("18", "It is 18...", None, False, "18...", False),
    ("18", "It is 18, as 9 + 9.", None, False, "9.", False),
    ("18", "#### eighteen", None, False, None, False),
    ("18", "eighteen", None, False, None, False),
    ("18", "", None, False, None, False),
    ("18", "#### ", None, False, None, False),
    ("18", "#### .", ".", False, None, False),
    ("18", "#### -18", "-18", False, "-18", False),
    ("18", "#### 018", "018", False, "018", False),
    ("18", "#### +18", None, False, "18", True),
    ("1234", "#### 1,234", "1,234", True, "1,234", True),
    ("1234", "#### 1234", "1234", True, "1234", True),
    ("1234", "$1,234.00", None, False, "$1,234.00", False),
    ("1234", "#### 1,234.00", "1,234.00", False, "1,234.00", False),
    ("1234", "#### $1,234", None, False, "$1,234", True),
    ("1234", "It costs $1,234.", None, False, "$1,234.", True),
    ("1234", "#### 1 234", "1", False, "234", False),
    ("1234", "#### 1.234", "1.234", False, "1.234", False),
    ("1234", "#### 1,2,3,4", "1,2,3,4", True, "1,2,3,4", True),
    ("-5", "-5", None, False, "-5", True),
    ("-5", "#### -5", "-5", True, "-5", True),
    ("-5", "#### - 5", None, False, "5", False),
    ("-5", "#### −5", None, False, "5", False),
    ("-5", "10 - 15 = -5", None, False, "-5", True),
    ("-5", "10-15", None, False, "-15", False),
    ("2", "1/2", None, False, "2", True),
    ("2", "#### 1/2", "1", False, "2", True),
    ("0.5", "#### 1/2", "1", False, "2", False),
    ("0.5", "#### .5", ".5", False, ".5", False),
    ("0.5", "#### 0.5", "0.5", True, "0.5", True),
    ("3", "３", None, False, None, False),
    ("3", "#### ３", None, False, None, False),
    ("3", "#### 3", "3", True, "3", True),
    ("3", "3", None, False, "3", True),
    ("3", "1, 2, 3", None, False, "3", True),
    ("3", "1,2,3", None, False, "1,2,3", False),
    ("3", "3 apples and 4 pears", None, False, "4", False),
    ("3", "x = 3%", None, False, "3", True),
    ("3", "#### 3e0", "3", True, "0", False),
    ("3", "Three friends share 9: 9/3=3", None, False, "3", True),
    ("70000", "#### 70,000", "70,000", True, "70,000", True),
    ("70000", "70000 dollars, or 70 thousand", None, False, "70", False),
    ("70000", "#### 70k", "70", False, "70", False),
]
"""Gold number, answer, what strict finds and whether it is right, and the same for flexible."""


@pytest.mark.parametrize(
    ("gold", "answer", "strictly", "strict_right", "flexibly", "flexible_right"), AWKWARD
)
def test_an_awkward_answer_is_read_as_the_published_rules_read_it(
    gold: str,
    answer: str,
    strictly: str | None,
    strict_right: bool,
    flexibly: str | None,
    flexible_right: bool,
) -> None:
    assert (strict(answer), flexible(answer)) == (strictly, flexibly)
    whole = f"Some steps, $<<2*9=18>>18.\n#### {gold}"
    assert (same(strictly, whole), same(flexibly, whole)) == (strict_right, flexible_right)


def test_commas_of_the_gold_count_no_more_than_those_of_the_answer() -> None:
    assert same(strict("#### 1234"), "#### 1,234")
    assert same(flexible("$1,234."), "Steps.\n#### 1,234")

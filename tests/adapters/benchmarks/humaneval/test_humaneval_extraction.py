"""Finding the code in an answer."""

from __future__ import annotations

import textwrap
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.benchmarks.humaneval.extraction import MAX_ANSWER, candidates
from adapters.benchmarks.humaneval.solution_side import choose, load

PROMPT = 'import math\n\ndef twice(x: int) -> int:\n    """ Twice.\n    >>> twice(2)\n    4\n    """\n'
WHOLE = "def twice(x: int) -> int:\n    y = x + x\n    return y\n"
BODY = "    y = x + x\n    return y\n"


def answered(answer: str) -> Any:
    """What the function found in the answer gives for 21; None when none is found."""
    found = [[candidate.kind, candidate.code] for candidate in candidates(answer, "twice")]
    try:
        number = choose(found, PROMPT, "twice")
    except SyntaxError:
        return None
    namespace: dict[str, Any] = {}
    load(found[number], PROMPT, namespace)
    return namespace["twice"](21)


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(f"```python\n{WHOLE}```", id="a labelled block"),
        pytest.param(f"```\n{WHOLE}```", id="an unlabelled block"),
        pytest.param(f"~~~py\n{WHOLE}~~~", id="tildes"),
        pytest.param(f"Sure!\n\n```python\n{WHOLE}```\nIt adds.", id="prose around"),
        pytest.param(f"```python\n{WHOLE}", id="never closed"),
        pytest.param(f"```Python\r\n{WHOLE}".replace("\n", "\r\n"), id="carriage returns"),
        pytest.param(f"1. Do:\n   ```python\n{textwrap.indent(WHOLE, '   ')}   ```", id="inside a list"),
        pytest.param(f"> ```python\n{textwrap.indent(WHOLE, '> ')}> ```", id="quoted"),
        pytest.param(f"````python\n{WHOLE}\n# ```\n````", id="a longer fence with a fence inside"),
        pytest.param(f"```python\n{PROMPT}{BODY}```", id="the whole program"),
        pytest.param(f"```python\n{BODY}```", id="only the body"),
        pytest.param(f"```python\n{textwrap.dedent(BODY)}```", id="only the body, without indent"),
        pytest.param(BODY, id="raw completion"),
        pytest.param(BODY.lstrip(), id="raw completion, stripped"),
        pytest.param(textwrap.dedent(BODY), id="raw completion without indent"),
        pytest.param(WHOLE, id="no fence"),
        pytest.param(f"Here it is:\n{WHOLE}", id="no fence, prose before"),
        pytest.param(f"Here it is:\n{WHOLE}\nThat adds it to itself.", id="no fence, prose around"),
        pytest.param(f"```bash\npip install x\n```\n```python\n{WHOLE}```", id="another language first"),
        pytest.param(f"```python\n{WHOLE}```\n```python\nprint(twice(2))\n```", id="an example after"),
        pytest.param(
            f"```python\ndef twice(x):\n    return 0\n```\nNo, rather:\n```python\n{WHOLE}```", id="corrected"
        ),
        pytest.param(f"```python\ntwice = lambda x:\n```\n```python\n{WHOLE}```", id="broken block first"),
        pytest.param(
            f"```python\n{WHOLE}```\n```python\ndef twice(x): return (\n```", id="broken block last"
        ),
        pytest.param("```python\ntwice = lambda x: x + x\n```", id="a lambda"),
        pytest.param(f"```python\nfrom __future__ import annotations\n{WHOLE}```", id="a future import"),
        pytest.param(
            "```python\ndef twice(x):\n    return math.floor(2 * x)\n```", id="an import of the prompt"
        ),
        pytest.param(
            "def half(x):\n    return x / 2\n\ndef twice(x):\n    return x * 2", id="a second function"
        ),
    ],
)
def test_the_solution_is_found(answer: str) -> None:
    assert answered(answer) == 42


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "I cannot do that.",
        "Sorry",
        "pass",
        "```\n```",
        "```python\n```",
        "The answer is 42.",
        "```python\nx = 1\n```",
    ],
)
def test_where_there_is_no_solution_none_is_found(answer: str) -> None:
    assert answered(answer) is None


def test_prose_that_has_no_result_gives_no_candidate() -> None:
    assert candidates("This is one fixed sentence.", "twice") == ()


def test_an_answer_that_is_too_long_gives_no_candidate() -> None:
    assert candidates(WHOLE + "#" * MAX_ANSWER, "twice") == ()


prose = st.text(st.characters(exclude_characters="`~", exclude_categories=["Cs"]), max_size=80).filter(
    lambda text: "twice" not in text
)


@given(
    before=prose,
    after=prose,
    label=st.sampled_from(["", "python", "py", "Python3"]),
    indent=st.integers(0, 5),
)
def test_a_block_is_found_in_any_prose(before: str, after: str, label: str, indent: int) -> None:
    block = textwrap.indent(f"```{label}\n{WHOLE}```", " " * indent)
    assert answered(f"{before}\n{block}\n{after}") == 42


@given(st.text(max_size=300) | st.text("`~ \n\tdeftwicx():=python>return", max_size=200))
def test_any_text_has_candidates_or_none_but_no_error(answer: str) -> None:
    for candidate in candidates(answer, "twice"):
        assert candidate.kind in ("whole", "body")

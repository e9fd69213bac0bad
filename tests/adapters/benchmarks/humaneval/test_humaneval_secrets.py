"""Code is full of names like `token` and `key`: none of HumanEval's items passes for a secret."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from atp.protocol.redaction import Redactor


def test_no_prompt_solution_or_test_would_be_redacted(humaneval_data: Path) -> None:
    redactor = Redactor()
    [path] = humaneval_data.rglob("HumanEval.jsonl.gz")
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        items = [json.loads(line) for line in lines]
    assert len(items) == 164
    assert [item["task_id"] for item in items if redactor.value(item) is not item] == []

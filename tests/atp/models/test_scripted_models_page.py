"""The page on scripted models: its script is one, and its code runs."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

import pytest

from atp.models import SCRIPTED_MODELS

PAGE = (Path(__file__).parents[3] / "docs" / "scripted-models.md").read_text(encoding="utf-8")
FILES = re.findall(r"<!-- file: (\S+) -->\n```yaml\n(.*?)```", PAGE, re.DOTALL)
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
async def test_every_code_block_of_the_page_runs(block: str, tmp_path: Path) -> None:
    for name, text in FILES:
        (tmp_path / name).write_text(text, encoding="utf-8")
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        block,
        cwd=tmp_path,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()


def test_the_page_has_code_and_names_every_scripted_model() -> None:
    assert len(BLOCKS) == 2
    assert len(FILES) == 1
    assert all(f"`scripted/{name}`" in PAGE for name in SCRIPTED_MODELS)

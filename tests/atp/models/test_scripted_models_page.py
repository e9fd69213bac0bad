"""The page on scripted models; its blocks run with those of every page (`tests/docs`)."""

from __future__ import annotations

from pathlib import Path

from atp.models import SCRIPTED_MODELS

PAGE = Path(__file__).parents[3] / "docs" / "scripted-models.md"


def test_the_page_names_every_scripted_model() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert all(f"`scripted/{name}`" in text for name in SCRIPTED_MODELS)

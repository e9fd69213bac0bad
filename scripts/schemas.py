"""Write the JSON Schemas that ship with the package. Run it when one of the types has changed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel

from atp.engine.experiment_file import ExperimentFile
from atp.models.prices import PriceTable
from atp.models.scripted.script import Script
from atp.protocol.evidence import TargetEvidence
from atp.protocol.task import TaskInput

_ATP = Path(__file__).resolve().parent.parent / "atp"

SCHEMAS: Mapping[Path, type[BaseModel]] = {
    _ATP / "protocol" / "task_input.schema.json": TaskInput,
    _ATP / "protocol" / "evidence" / "target_evidence.schema.json": TargetEvidence,
    _ATP / "engine" / "experiment_file.schema.json": ExperimentFile,
    _ATP / "models" / "prices.schema.json": PriceTable,
    _ATP / "models" / "scripted" / "script.schema.json": Script,
}
"""File -> the type whose schema it holds."""


def schema(model: type[BaseModel]) -> str:
    """The schema as text, as it stands in its file."""
    document = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **model.model_json_schema(),
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    for path, model in SCHEMAS.items():
        path.write_text(schema(model), encoding="utf-8")

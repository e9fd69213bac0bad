"""Write the JSON Schemas that ship with the package. Run it when one of the types has changed."""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import BaseModel

from atp.models.prices import PriceTable
from atp.protocol.task import TaskInput

_ATP = Path(__file__).resolve().parent.parent / "atp"
PUBLISHED: dict[Path, type[BaseModel]] = {
    _ATP / "protocol" / "task_input.schema.json": TaskInput,
    _ATP / "models" / "prices.schema.json": PriceTable,
}
"""Where a schema ships -> the type it is of."""


def schema(kind: type[BaseModel]) -> str:
    """The schema as text, as it stands in the file."""
    document = {"$schema": "https://json-schema.org/draft/2020-12/schema", **kind.model_json_schema()}
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    for path, kind in PUBLISHED.items():
        path.write_text(schema(kind), encoding="utf-8")

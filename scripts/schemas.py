"""Write the JSON Schema of `TaskInput` that ships with the package. Run it when the type has changed."""

from __future__ import annotations

import json
from pathlib import Path

from atp.protocol.task import TaskInput

PATH = Path(__file__).resolve().parent.parent / "atp" / "protocol" / "task_input.schema.json"


def schema() -> str:
    """The schema as text, as it stands in the file."""
    document = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **TaskInput.model_json_schema(),
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    PATH.write_text(schema(), encoding="utf-8")

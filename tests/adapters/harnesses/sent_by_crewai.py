"""What CrewAI makes of a tool's schema, without a line of the adapter: run in its environment, prints JSON.

    python sent_by_crewai.py FILE

The file has a list of JSON Schemas; each is put through as the schema of a tool's arguments.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from crewai.llms.providers.openai.completion import OpenAICompletion
from crewai.tools import BaseTool
from crewai.utilities.agent_utils import convert_tools_to_openai_schema
from pydantic import BaseModel


class Tool(BaseTool):  # type: ignore[misc]  # the SDK is not there to be checked against
    """A tool that is never called."""

    name: str = "tool"
    description: str = "A tool."

    def _run(self, **arguments: Any) -> str:
        return ""


def sent(schema: dict[str, Any], model: Any) -> Any:
    """The `parameters` in the request."""

    class Arguments(BaseModel):
        @classmethod
        def model_json_schema(cls, *_: Any, **__: Any) -> dict[str, Any]:
            return schema

    tools, _, _ = convert_tools_to_openai_schema([Tool(args_schema=Arguments)])
    [tool] = model._convert_tools_for_interference(tools)
    return tool["function"]["parameters"]


if __name__ == "__main__":
    client = OpenAICompletion(model="m", api_key="none")
    schemas = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    json.dump([sent(schema, client) for schema in schemas], sys.stdout)

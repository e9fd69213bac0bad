"""A model that calls tools by writing Python: what it is told of them, and what is read out of its text."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from typing import Any

from atp.protocol.environment import ToolSpec

OBSERVATION = "Observation:\n"
"""What stands before what the code printed."""

_BLOCK = re.compile(r"```python\n(.*?)\n```", re.DOTALL)


def signatures(tools: Sequence[ToolSpec]) -> str:
    """The tools as functions, for the system prompt."""
    told = [f"def {tool.name}({', '.join(tool.parameters.get('properties', {}))}): ..." for tool in tools]
    return "\n".join(["Call these functions in a block of Python:", *told])


def written_calls(text: str) -> list[tuple[str, dict[str, Any]]]:
    """The calls in a reply's blocks, each with the values that its arguments are written with."""
    found: list[tuple[str, dict[str, Any]]] = []
    for code in _BLOCK.findall(text):
        for statement in ast.parse(code).body:
            if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
                raise ValueError(f"not a call: {ast.unparse(statement)}")
            [call] = statement.value.args
            assert isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
            arguments: dict[str, Any] = {}
            for argument in call.keywords:
                value = ast.literal_eval(argument.value)
                arguments |= value if argument.arg is None else {argument.arg: value}
            found.append((call.func.id, arguments))
    return found

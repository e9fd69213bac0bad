"""The tools as the benchmark declares them: nested objects, enums, optional and nullable fields."""

from __future__ import annotations

from pydantic import JsonValue

from atp.protocol.environment import ToolSpec

CURRENCIES = ("EUR", "USD", "CHF")

_CURRENCY: JsonValue = {"type": "string", "enum": list(CURRENCIES)}
_ACCOUNT: JsonValue = {"type": "string", "pattern": "^acc-[0-9]+$"}
_AMOUNT: JsonValue = {
    "type": "object",
    "description": "An amount of money.",
    "properties": {"cents": {"type": "integer", "minimum": 1}, "currency": _CURRENCY},
    "required": ["cents", "currency"],
    "additionalProperties": False,
}


def _tool(name: str, description: str, properties: dict[str, JsonValue], required: list[str]) -> ToolSpec:
    parameters: dict[str, JsonValue] = {
        "type": "object",
        "properties": properties,
        "required": list[JsonValue](required),
        "additionalProperties": False,
    }
    return ToolSpec(name=name, description=description, parameters=parameters)


TOOLS: tuple[ToolSpec, ...] = (
    _tool(
        "open_account",
        "Open an account.",
        {
            "owner": {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "emails": {"type": "array", "items": {"type": "string"}, "default": []},
                },
                "required": ["name"],
                "additionalProperties": False,
            },
            "currency": _CURRENCY,
            "deposit": {"anyOf": [_AMOUNT, {"type": "null"}], "default": None},
        },
        ["owner", "currency"],
    ),
    _tool(
        "deposit",
        "Put money into an account.",
        {"account": _ACCOUNT, "amount": _AMOUNT},
        ["account", "amount"],
    ),
    _tool(
        "transfer",
        "Move money from one account to another.",
        {
            "source": _ACCOUNT,
            "target": _ACCOUNT,
            "amount": _AMOUNT,
            "memo": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
        },
        ["source", "target", "amount"],
    ),
    _tool("balance", "Say how many cents an account holds.", {"account": _ACCOUNT}, ["account"]),
    _tool("close", "Close an empty account.", {"account": _ACCOUNT}, ["account"]),
    _tool("fail", "Always fails, with this text.", {"message": {"type": "string"}}, ["message"]),
    _tool(
        "crash", "Breaks the benchmark itself, with this text.", {"message": {"type": "string"}}, ["message"]
    ),
    _tool(
        "wait",
        "Take this many seconds.",
        {"seconds": {"type": "number", "minimum": 0, "maximum": 3600}},
        ["seconds"],
    ),
    _tool(
        "statement",
        "Print a statement of this many characters.",
        {
            "characters": {"type": "integer", "minimum": 0, "maximum": 64_000_000},
            "code_point": {"type": "integer", "description": "Of a character to put behind."},
        },
        ["characters"],
    ),
)

"""Requests through Anthropic's own client, without a line of ours: run in an environment that has it.

    python anthropic_client.py

Each line of standard input is a request as JSON: `client` (what the client is made with), `how` (`create`,
`stream`, `events` or `count`) and `request` (what its method is called with). Each line of standard output is
what came of it: a message, or an error.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import anthropic


def main() -> None:
    """Answer line by line until standard input ends."""
    for line in sys.stdin:
        asked = json.loads(line)
        with anthropic.Anthropic(**asked["client"]) as client:
            try:
                came = _came(client, asked["how"], asked["request"])
            except Exception as error:  # whatever it is, it is what came
                came = _error(error)
        print(json.dumps(came), flush=True)


def _came(client: Any, how: str, request: dict[str, Any]) -> dict[str, Any]:
    if how == "count":
        client.messages.count_tokens(**request)
        return {}
    if how == "events":
        return {"events": [event.to_dict() for event in client.messages.create(**request, stream=True)]}
    if how == "create":
        message = client.messages.create(**request)
        return {"message": message.to_dict(), "request_id": message._request_id}
    with client.messages.stream(**request) as stream:
        return {"message": stream.get_final_message().to_dict(), "request_id": stream.request_id}


def _error(error: Exception) -> dict[str, Any]:
    told = {"status": "status_code", "type": "type", "code": "error_code", "request_id": "request_id"}
    return {
        "error": type(error).__name__,
        "text": str(error),
        **{name: getattr(error, attribute, None) for name, attribute in told.items()},
    }


if __name__ == "__main__":
    main()

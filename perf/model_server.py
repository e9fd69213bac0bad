"""A model that costs next to nothing: OpenAI chat completions by how far a conversation is, nothing kept.

    python perf/model_server.py TURNS DELAY [--final-answer]

`TURNS - 1` replies call the tool `balance`, the last says `done`, each after DELAY seconds; with
`--final-answer` it says so by calling the tool of that name, as smolagents wants it. Prints its port. The
scripted endpoint is none for this: it writes and compares all that a session was asked, and all tasks of
both sides share one here, as they would a provider.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from typing import Any

from aiohttp import web

_NUMBERS = itertools.count(1)
_USAGE = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}


def call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """A message that calls one tool."""
    function = {"name": name, "arguments": json.dumps(arguments)}
    said = {"id": f"call_{next(_NUMBERS)}", "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [said]}


def main() -> None:
    """Serve until the process is told to end."""
    turns, delay = int(sys.argv[1]), float(sys.argv[2])
    last = (
        call("final_answer", {"answer": "done"})
        if "--final-answer" in sys.argv
        else {"role": "assistant", "content": "done"}
    )

    async def reply(request: web.Request) -> web.Response:
        asked = json.loads(await request.read())
        answered = sum(message["role"] in {"assistant", "tool-call"} for message in asked["messages"])
        message = last if answered >= turns - 1 else call("balance", {"account": "acc-1"})
        if delay:
            await asyncio.sleep(delay)
        choice = {
            "index": 0,
            "message": message,
            "finish_reason": "tool_calls" if "tool_calls" in message else "stop",
        }
        return web.json_response(
            {
                "id": f"chatcmpl-{next(_NUMBERS)}",
                "object": "chat.completion",
                "created": 0,
                "model": asked["model"],
                "choices": [choice],
                "usage": _USAGE,
            }
        )

    async def serve() -> None:
        app = web.Application(client_max_size=1 << 30)
        app.router.add_post("/v1/chat/completions", reply)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, backlog=1024).start()
        print(runner.addresses[0][1], flush=True)
        await asyncio.Event().wait()

    asyncio.run(serve())


if __name__ == "__main__":
    main()

"""An engine that is killed takes the endpoint along, and the log stays whole."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

import psutil

from atp.models.scripted.wire_log import read_wire_log

ENGINE = """
import asyncio, sys
from pathlib import Path
import aiohttp
from atp.models.scripted import ScriptedEndpoint
from atp.protocol.model import Dialect

async def main():
    endpoint = await ScriptedEndpoint.start(Path(sys.argv[1]))
    session = await endpoint.open("run-1", policy={"kind": "noop"})
    model = session.model_endpoint(Dialect.OPENAI_CHAT, "m")
    print(endpoint.pid, flush=True)
    headers = {"authorization": "Bearer " + model.api_key.get_secret_value()}
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    async with aiohttp.ClientSession(headers=headers) as http:

        async def ask_for_ever():
            while True:
                async with http.post(model.base_url + "/chat/completions", json=body) as response:
                    print((await response.json())["id"], flush=True)

        await asyncio.gather(*(ask_for_ever() for _ in range(4)))

asyncio.run(main())
"""


async def test_sigkill_of_the_engine_ends_the_endpoint_and_every_answer_is_in_the_log(
    tmp_path: Path,
) -> None:
    log = tmp_path / "wire.jsonl"
    engine = await asyncio.create_subprocess_exec(
        sys.executable, "-c", ENGINE, str(log), stdout=asyncio.subprocess.PIPE
    )
    assert engine.stdout is not None
    endpoint = psutil.Process(int(await engine.stdout.readline()))
    answered = [(await engine.stdout.readline()).decode().strip() for _ in range(20)]
    engine.send_signal(signal.SIGKILL)
    rest = (await engine.stdout.read()).decode()
    await engine.wait()
    # Its parent is gone, so this waits for the end by looking, as psutil does.
    await asyncio.to_thread(endpoint.wait, 30)
    # What the engine printed last may have been cut in the pipe.
    answered += rest.split("\n")[:-1]
    logged = {record["response_id"] for record in read_wire_log(log)}
    assert len(answered) >= 20
    assert set(answered) <= logged

"""The filter before a worker's log, as the process it is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading

import pytest

from tests.canaries import KNOWN, SHAPED


def filtered(*writes: bytes) -> bytes:
    """What the filter makes of writes that come one after the other."""
    known, ours = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "atp.worker.log_filter", str(known)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        pass_fds=(known,),
    )
    os.close(known)
    with open(ours, "w", encoding="utf-8") as pipe:
        json.dump({KNOWN: "A_TOKEN"}, pipe)
    assert process.stdin is not None and process.stdout is not None
    stdin, out = process.stdin, []
    reader = threading.Thread(target=lambda: out.append(process.stdout.read()))  # type: ignore[union-attr]
    reader.start()
    for data in writes:
        stdin.write(data)
        stdin.flush()
    stdin.close()
    reader.join()
    process.stdout.close()
    assert process.wait() == 0
    return out[0]


def test_a_line_loses_its_secrets_and_nothing_else() -> None:
    said = f"before {SHAPED} between {KNOWN} after\nsecond line\n"
    assert (
        filtered(said.encode())
        == b"before [redacted:openai-key] between [redacted:A_TOKEN] after\nsecond line\n"
    )


def test_a_secret_that_comes_in_two_writes_is_found() -> None:
    assert filtered(KNOWN[:9].encode(), KNOWN[9:].encode() + b"\n") == b"[redacted:A_TOKEN]\n"


def test_a_last_line_without_an_end_is_kept() -> None:
    assert filtered(b"one\n", b"two") == b"one\ntwo"


def test_a_private_key_over_many_lines_and_writes_is_found() -> None:
    head, body, end = (
        b"-----BEGIN PRIVATE KEY-----\n",
        b"MIIEvQIBADAN\n" * 20,
        b"-----END PRIVATE KEY-----\nafter\n",
    )
    assert filtered(b"a\n" + head, body, end) == b"a\n[redacted:private-key]\nafter\n"
    assert filtered(head, body) == b"[redacted:private-key]"


@pytest.mark.parametrize("noise", [b"\xff\xfe\x00", bytes(range(128, 256))])
def test_bytes_that_are_no_text_are_kept_beside_a_secret(noise: bytes) -> None:
    assert filtered(noise + b" " + SHAPED.encode() + b" " + noise + b"\n") == (
        noise + b" [redacted:openai-key] " + noise + b"\n"
    )


def test_a_flood_without_a_line_end_comes_through_whole() -> None:
    flood = b"x" * 5_000_000
    assert filtered(flood, b"\n") == flood + b"\n"

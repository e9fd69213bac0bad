"""Say the tasks of a benchmark that lives in an environment of its own.

    python -m atp.worker.tasks FACTORY OPTIONS

The factory is that of the card's worker, the options are a JSON object. Standard output gets a JSON array
of `TaskInput`, and nothing else: what the package prints goes to standard error. One that refuses (its
options, its data) gives `{"message", "fault"}` in place of the array.
"""

from __future__ import annotations

import os
import sys

from atp.protocol.errors import AtpError
from atp.protocol.json_text import decode, encode
from atp.worker.loading import load
from atp.worker.messages import Failure


def main(factory: str, options: str) -> None:
    """Write them."""
    with os.fdopen(os.dup(1), "wb") as output:
        os.dup2(2, 1)
        try:
            said = encode(list(load(factory)(decode(options)).load(None)))
        except AtpError as error:
            said = encode(Failure.of(error))
        output.write(said)


if __name__ == "__main__":
    main(*sys.argv[1:])

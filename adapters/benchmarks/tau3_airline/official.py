"""The official code and data out of the package's folder: checked by digest, then loaded.

The package is never installed or put on the path. Its `vendor` modules are upstream's tool classes
and need pydantic alone; they are run from the very bytes whose digests were checked, under names of
their own, so neither the package's MCP server (and `mcp`) nor a compiled file is ever touched.
"""

from __future__ import annotations

import functools
import hashlib
import json
import logging
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from adapters.benchmarks.tau3_airline.card import (
    CARD,
    DATA,
    DATABASE,
    MODULES,
    PACKAGE,
    POLICY,
    SHA256,
    TASKS,
)
from adapters.benchmarks.tau3_airline.database import Database
from adapters.benchmarks.tau3_airline.tools import declared
from atp.protocol.cards import DataSource
from atp.protocol.errors import InvalidInput, NotReady

_NAME = f"_{PACKAGE}_{CARD.revision[:12]}"
_loading = threading.Lock()


class Airline:
    """One unpacked package: its tasks and policy, its tool classes, its database.

    Args:
        folder: Where the package lies unpacked.

    Raises:
        NotReady: A file is not there.
        InvalidInput: A file is not the pinned one.
    """

    def __init__(self, folder: Path) -> None:
        contents = {name: checked(folder / name, digest, DATA) for name, digest in SHA256.items()}
        modules = _modules(folder, contents)
        self.policy = contents[POLICY].decode()
        self.tasks: Sequence[Mapping[str, Any]] = json.loads(contents[TASKS])
        self._tools: Callable[[Any], Any] = modules["airline_tools"].AirlineTools
        self.tool_functions: Mapping[str, Callable[..., Any]] = {
            name: function
            for name, function in vars(self._tools).items()
            if getattr(function, "__tool__", False)
        }
        """Tool name -> function of the official class, in its order."""
        self.declarations = declared(self.tool_functions)
        self.database = Database(
            modules["airline_data_model"].FlightDB.model_validate(json.loads(contents[DATABASE]))
        )

    def scenario(self, task_id: str) -> Mapping[str, Any]:
        """The official `user_scenario` of a task; the user's alone.

        Raises:
            KeyError: There is no such task.
        """
        return self._scenarios[task_id]

    def tools(self, db: Any) -> Any:
        """The official tool object over a database."""
        return self._tools(db)

    def writes(self, tool: str) -> bool:
        """Whether a tool changes the database, by its official declaration; unknown tools do not."""
        function = self.tool_functions.get(tool)
        return function is not None and bool(getattr(function, "__mutates_state__", True))

    @functools.cached_property
    def _scenarios(self) -> Mapping[str, Mapping[str, Any]]:
        return {task["id"]: task["user_scenario"] for task in self.tasks}


def airline(folder: Path) -> Airline:
    """The package in a folder, loaded once for the process: 0.4 s the first time."""
    with _loading:
        return _loaded(folder)


@functools.lru_cache(maxsize=2)
def _loaded(folder: Path) -> Airline:
    return Airline(folder)


def checked(path: Path, digest: str, source: DataSource) -> bytes:
    """The content of a file.

    Args:
        path: Where it lies.
        digest: Its SHA-256.
        source: What it belongs to.

    Raises:
        NotReady: It is not there.
        InvalidInput: It is not the pinned one.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError as error:
        raise NotReady(f"the files of {source.name} are not here: `atp data get {source.name}`") from error
    actual = hashlib.sha256(content).hexdigest()
    if actual != digest:
        raise InvalidInput(
            f"{path} is not the pinned file: its SHA-256 is {actual}, not {digest};"
            f" remove its folder and run `atp data get {source.name}`"
        )
    return content


def _modules(folder: Path, contents: Mapping[str, bytes]) -> Mapping[str, ModuleType]:
    package = ModuleType(_NAME)
    package.__path__ = []
    sys.modules[_NAME] = package  # their relative imports look for one another here
    # The tools log a warning at every cancellation; nobody asked for it.
    logging.getLogger(_NAME).setLevel(logging.ERROR)
    modules: dict[str, ModuleType] = {}
    for name in MODULES:
        path = f"{PACKAGE}/vendor/{name}.py"
        module = modules[name] = ModuleType(f"{_NAME}.{name}")
        module.__package__ = _NAME
        module.__file__ = str(folder / path)
        sys.modules[module.__name__] = module
        exec(compile(contents[path], str(folder / path), "exec", dont_inherit=True), module.__dict__)
    return modules

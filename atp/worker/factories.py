"""Loading the factory of a user's own agent."""

from __future__ import annotations

import hashlib
import importlib
import sys
from pathlib import Path

from atp.protocol.cards import FactorySource
from atp.protocol.errors import PluginError
from atp.protocol.own_agents import OwnAgent

_loaded: dict[str, str] = {}
"""Module -> SHA-256 of its source when it was first asked for here. A module is loaded once."""


def own_agent(source: FactorySource) -> OwnAgent:
    """Import the user's module, and with it the SDK.

    The user's folder goes to the end of the module search path, where it shadows nothing.

    Raises:
        PluginError: The module cannot be imported, is another than was planned or has changed since,
            or has no such function.
    """
    if source.folder not in sys.path:
        sys.path.append(source.folder)
    name, _, attribute = source.path.partition(":")
    if name not in _loaded:
        try:
            digest = hashlib.sha256(Path(source.file).read_bytes()).hexdigest()
        except OSError as error:
            raise PluginError(f"{source.path}: {source.file} cannot be read: {error.strerror}") from error
        try:
            importlib.import_module(name)
        except Exception as error:  # whatever the user's module raises as it is imported
            raise PluginError(
                f"{source.path}: importing {name!r} raised {type(error).__name__}: {error}"
            ) from error
        _loaded[name] = digest
    module = sys.modules[name]
    found = getattr(module, "__file__", None)
    if found is None or not Path(found).samefile(source.file):
        raise PluginError(
            f"{source.path}: a module {name!r} from {found} is found before {source.file}; rename yours"
        )
    if _loaded[name] != source.sha256:
        raise PluginError(
            f"{source.path}: {source.file} has changed since the experiment was planned; start a new one"
        )
    factory = getattr(module, attribute, None)
    if not callable(factory):
        raise PluginError(f"{source.path}: {attribute!r} of {source.file} is no function but {factory!r}")
    return OwnAgent(source, factory)

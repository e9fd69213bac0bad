"""From `module:attribute` to the object."""

from __future__ import annotations

import importlib
from typing import Any

from atp.protocol.errors import PluginError


def load(path: str) -> Any:
    """Import what a card names.

    Args:
        path: `module:attribute`.

    Raises:
        PluginError: The path is malformed, the module cannot be imported, or it has no such
            attribute; the message names the path and the cause.
    """
    module_name, _, attribute = path.partition(":")
    if not module_name or not attribute:
        raise PluginError(f"{path!r} is not of the form module:attribute")
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise PluginError(f"{path!r} cannot be imported: {error}") from error
    try:
        return getattr(module, attribute)
    except AttributeError:
        raise PluginError(f"{path!r}: module {module_name!r} has no {attribute!r}") from None

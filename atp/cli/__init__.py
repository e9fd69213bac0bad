"""The `atp` command, one module for each group of commands."""

from atp.cli.app import main

__all__ = ["main"]

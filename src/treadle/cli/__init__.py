"""The command line."""

from treadle.cli.commands import main

__all__ = ["main"]

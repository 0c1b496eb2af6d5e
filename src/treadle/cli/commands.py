"""The commands. A user's mistake is one sentence and exit code 1 (2 for wrong arguments), never a traceback."""

import importlib
import logging
from typing import Any

import click

from treadle.words.errors import TreadleError

# Each has a module of its name, which is imported when the command is asked for: nobody waits for what the others need.
COMMANDS = [
    "migrate",
    "worker",
    "watch",
    "why",
    "demo",
    "bench",
]


class Commands(click.Group):
    def list_commands(self, context: click.Context) -> list[str]:
        return COMMANDS

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command: click.Command = getattr(importlib.import_module(f"treadle.cli.{name}"), name)
        return command

    def invoke(self, context: click.Context) -> Any:
        try:
            return super().invoke(context)
        except TreadleError as error:
            raise click.ClickException(str(error)) from error


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="treadle", prog_name="treadle")
def main() -> None:
    """Treadle: a job queue for Python on PostgreSQL alone."""
    logger = logging.getLogger("treadle")
    if not logger.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(message)s"))
        logger.addHandler(handler)
    logger.setLevel(logging.INFO)

"""The commands. An expected error is one sentence and exit code 1 (2 for wrong arguments), never a traceback."""

import importlib
import logging
from typing import Any

import click

from treadle.words.errors import TreadleError
from treadle.words.phrases import printable, printable_lines

# Each has a module of its name, which is imported when the command is asked for: nobody waits for what the others need.
COMMANDS = [
    "demo",
    "dev",
    "migrate",
    "roles",
    "worker",
    "enqueue",
    "jobs",
    "show",
    "why",
    "watch",
    "stats",
    "retry",
    "cancel",
    "delete",
    "run-now",
    "priority",
    "pause",
    "resume",
    "pauses",
    "top",
    "dashboard",
    "doctor",
    "bench",
    "completion",
]
# The exit code of shells for a program that Ctrl-C ended: 128 and the number of SIGINT.
INTERRUPTED = 130


class Commands(click.Group):
    def list_commands(self, context: click.Context) -> list[str]:
        return COMMANDS

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module = name.replace("-", "_")
        command: click.Command = getattr(importlib.import_module(f"treadle.cli.{module}"), module)
        return command

    def invoke(self, context: click.Context) -> Any:
        try:
            return super().invoke(context)
        except TreadleError as error:
            # The message may quote stored data, which must not reach the terminal as control characters.
            raise click.ClickException("\n".join(printable_lines(str(error)))) from error
        except (KeyboardInterrupt, click.Abort):
            click.echo(err=True)  # ends the line with the ^C
            context.exit(INTERRUPTED)
        except Exception as error:
            if (explanation := explained(error)) is None:
                raise
            raise explanation from error


def explained(error: Exception) -> click.ClickException | None:
    """A database error as one sentence. Any other error is a bug, for which the traceback is shown."""
    from treadle.db.database import DatabaseError

    if not isinstance(error, DatabaseError):
        return None
    message = printable(str(error).split("\n", 1)[0]) or type(error).__name__
    return click.ClickException(f"the database is unavailable or refused the statement: {message}")


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="treadle", prog_name="treadle")
def main() -> None:
    """Treadle, a job queue for Python that needs only PostgreSQL."""
    logger = logging.getLogger("treadle")
    if not logger.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(message)s"))
        logger.addHandler(handler)
    logger.setLevel(logging.INFO)

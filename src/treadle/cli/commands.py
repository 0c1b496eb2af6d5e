"""The commands. An expected error is one sentence and exit code 1 (2 for wrong arguments), never a traceback."""

import atexit
import gc
import importlib
import logging
import sys
from types import TracebackType
from typing import Any

import click
from click.shell_completion import CompletionItem

from treadle.cli.command_settings import bind, check_tables, file_settings, source_of
from treadle.words.errors import TreadleError
from treadle.words.formatting import printable, printable_lines

# Each command has a module of its name, imported when the command is used. `treadle --help` and shell completion show
# these lines and import none of the modules.
COMMANDS = {
    "demo": "Run a demonstration: a worker and twelve jobs with live progress bars.",
    "dev": "Run an application for development: restart the worker when code changes.",
    "migrate": "Create or upgrade the schema.",
    "roles": "Print or apply SQL for database roles with limited privileges.",
    "worker": "Run the jobs of an application.",
    "enqueue": "Enqueue a job after checking its arguments against its function.",
    "jobs": "List jobs, selected by status, type, queue, worker, key, time, text or a value in the payload.",
    "show": "Show the details of a job.",
    "errors": "List groups of failed attempts, and retry, cancel or mute one.",
    "why": "Explain why a job does not run, and what to do about it.",
    "watch": "Watch jobs with live progress bars until they finish.",
    "stats": "Show statistics of the queue, of a job type or of one queue.",
    "retry": "Run finished jobs again.",
    "cancel": "Cancel jobs that have not finished.",
    "delete": "Delete jobs with their events and logs.",
    "run-now": "Make scheduled jobs due now.",
    "priority": "Change the priority of jobs that have not finished.",
    "edit": "Change arguments of a job before it runs, or is retried.",
    "copy": "Enqueue a new job like another one.",
    "signal": "Send a signal to a workflow that waits for it.",
    "pause": "Stop starting jobs of a type, in a queue, or at all.",
    "resume": "Resume jobs that were paused.",
    "pauses": "List the pauses, with their age, actor and reason.",
    "concurrency": "Change how many jobs a live worker runs at once, until it ends.",
    "schedules": "List and change schedules.",
    "limits": "List and change limits.",
    "top": "Monitor the whole queue live on one screen.",
    "dashboard": "Serve the web dashboard.",
    "ping": "Check that the database answers, or that a worker is ready.",
    "config": "Print the settings that hold, and where they come from.",
    "doctor": "Find problems in the database that slow or break the queue.",
    "bench": "Measure the speed of the queue on this database.",
    "completion": "Print the line that enables shell completion.",
}
# The exit code of shells for a program that Ctrl-C ended: 128 and the number of SIGINT.
INTERRUPTED = 130


class Commands(click.Group):
    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """Run as a program. It imports its modules without the garbage collector, which would look through all of them
        again and again, and once more at the end: a quarter of the processor time of most commands."""
        gc.disable()
        atexit.register(gc.freeze)
        return super().__call__(*arguments, **options)

    def list_commands(self, context: click.Context) -> list[str]:
        return list(COMMANDS)

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def shell_complete(self, context: click.Context, incomplete: str) -> list[CompletionItem]:
        named = [CompletionItem(name, help=line) for name, line in COMMANDS.items() if name.startswith(incomplete)]
        return [*named, *click.Command.shell_complete(self, context, incomplete)]

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module = name.replace("-", "_")
        command: click.Command = getattr(importlib.import_module(f"treadle.cli.{module}"), module)
        if not gc.isenabled():
            gc.freeze()
            gc.enable()
        return bind(command, name)

    def resolve_command(
        self, context: click.Context, arguments: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, command, rest = super().resolve_command(context, arguments)
        if name and command is not None and not context.resilient_parsing:
            check_tables(list(COMMANDS))
            context.default_map = {name: file_settings(command, name)}
        return name, command, rest

    def invoke(self, context: click.Context) -> Any:
        try:
            return super().invoke(context)
        except TreadleError as error:
            # The message may quote stored data, which must not reach the terminal as control characters.
            raise click.ClickException("\n".join(printable_lines(_masked(str(error))))) from error
        except (KeyboardInterrupt, click.Abort, RuntimeError) as error:
            if not isinstance(error, click.Abort) and not _is_ctrl_c(error):
                raise
            click.echo(err=True)  # ends the line with the ^C
            context.exit(INTERRUPTED)
        except click.BadParameter as error:
            if error.ctx is not None and (source := source_of(error.ctx, error.param)):
                raise click.BadParameter(f"{error.message} (from {source})", error.ctx, error.param) from error
            raise
        except Exception as error:
            if (explanation := explained(error)) is None:
                raise
            raise explanation from error


def explained(error: Exception) -> click.ClickException | None:
    """A database error as one sentence. Any other error is a bug, for which the traceback is shown."""
    from treadle.db.database import DatabaseError

    if not isinstance(error, DatabaseError):
        return None
    message = printable(_masked(str(error)).split("\n", 1)[0]) or type(error).__name__
    return click.ClickException(f"the database is unavailable or refused the statement: {message}")


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="treadle", prog_name="treadle")
def main() -> None:
    """Treadle, a job queue for Python that needs only PostgreSQL."""
    sys.excepthook = _show_exception
    logger = logging.getLogger("treadle")
    if not logger.handlers:
        handler = logging.StreamHandler()
        handler.addFilter(_redact)
        handler.setFormatter(logging.Formatter("%(message)s"))
        logger.addHandler(handler)
    logger.setLevel(logging.INFO)


def _show_exception(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """The traceback of a bug, which may contain values of jobs."""
    if isinstance(error, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)
        return
    from treadle.text.exceptions import format_traceback

    print(_masked(format_traceback(error)), end="", file=sys.stderr)


# Imported on use: `treadle --help` needs none of them.


def _is_ctrl_c(error: BaseException) -> bool:
    from treadle.watching.ctrl_c import is_ctrl_c

    return is_ctrl_c(error)


def _redact(record: logging.LogRecord) -> bool:
    from treadle.text.log_redaction import RedactingFilter

    return RedactingFilter().filter(record)


def _masked(text: str) -> str:
    from treadle.text.masking import masked

    return masked(text)

"""Options that several commands have."""

import getpass
import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING
from uuid import UUID

import click

from treadle.words.naming import SCHEMA

# Imported where they are used: `treadle migrate` and `treadle roles` have these options, and need no application.
if TYPE_CHECKING:
    from treadle.app import Treadle

database_url = click.option(
    "--database-url",
    metavar="URL",
    help="The database. [default: TREADLE_DATABASE_URL, else DATABASE_URL, else the embedded server]",
)
schema = click.option(
    "--schema", envvar="TREADLE_SCHEMA", default=SCHEMA, show_default=True, help="The schema of the queue."
)
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON, one object a line.")
reason = click.option("--reason", metavar="TEXT", help="Why, for the audit.")


def whoever(door: str = "cli") -> str:
    """Who does it: the user of this machine, and through which door."""
    try:
        return f"{door}:{getpass.getuser()}"
    except (KeyError, OSError):  # in a container a user may have no name
        return f"{door}:{os.getuid()}"


actor = click.option(
    "--actor",
    metavar="NAME",
    default=whoever,
    help="Who does it, for the audit. [default: cli: and your user name]",
)


@contextmanager
def opened(url: str | None, schema: str) -> "Iterator[Treadle]":
    """The queue, without anybody's job functions."""
    from treadle.app import Treadle

    # A connection that is lost is told once, by the command.
    logging.getLogger("psycopg").setLevel(logging.ERROR)
    app = Treadle(url, schema=schema)
    try:
        yield app
    finally:
        app.close()


def job_ids(app: "Treadle", ids: Sequence[str]) -> list[UUID]:
    """The jobs whose ids were typed, or the beginnings of them; each once."""
    from treadle.cli.ids import meant

    return list(dict.fromkeys(meant(app.database, each) for each in ids))


def known_types(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """For the shell: the job types of the application, if one is named."""
    from treadle.app.load import load_app

    spec = context.params.get("app") or os.environ.get("TREADLE_APP")
    try:
        return [name for name in load_app(spec).job_types if name.startswith(incomplete)] if spec else []
    except Exception:  # a broken application must not break the line that is being typed
        return []

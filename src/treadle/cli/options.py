"""Options that several commands share."""

import getpass
import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING
from uuid import UUID

import click

from treadle.settings import value_of
from treadle.words.naming import SCHEMA

# Imported where they are used: `treadle migrate` and `treadle roles` have these options, and need no application.
if TYPE_CHECKING:
    from treadle.app.treadle import Treadle


class _AppName(click.types.StringParamType):
    def get_missing_message(self, param: object, ctx: object = None) -> str:
        return "Name your application, such as shop.jobs:app, here, in TREADLE_APP, or as app in treadle.toml."


app_name = click.argument("app", type=_AppName())
database_url = click.option(
    "--database-url",
    metavar="URL",
    help="Database to use. [default: TREADLE_DATABASE_URL, then DATABASE_URL, then the embedded server]",
)
schema = click.option("--schema", default=SCHEMA, show_default=True, help="Schema of the queue.")
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON, one object per line.")
app_database_url = click.option(
    "--database-url", metavar="URL", help="Database to use if the application does not name one."
)
log_level = click.option(
    "--log-level",
    default="info",
    show_default=True,
    type=click.Choice(["debug", "info", "warning", "error"]),
    help="Lowest level to log; debug logs every job.",
)
reason = click.option("--reason", metavar="TEXT", help="Reason to record in the audit.")


def default_actor(interface: str = "cli") -> str:
    """The user of this machine and the interface, for the audit: cli:ada."""
    try:
        return f"{interface}:{getpass.getuser()}"
    except (KeyError, OSError):  # in a container the user may have no name
        return f"{interface}:{os.getuid()}"


actor = click.option(
    "--actor",
    metavar="NAME",
    default=default_actor,
    help="Name to record in the audit. [default: cli: and your user name]",
)


@contextmanager
def opened(url: str | None, schema: str) -> "Iterator[Treadle]":
    """An application without job functions, closed at the end."""
    from treadle.app.treadle import Treadle

    # The command reports a lost connection once; the pool would log it again.
    logging.getLogger("psycopg").setLevel(logging.ERROR)
    app = Treadle(url, schema=schema)
    try:
        yield app
    finally:
        app.close()


def job_ids(app: "Treadle", ids: Sequence[str]) -> list[UUID]:
    """The ids that were typed, which may be shortened, without duplicates."""
    from treadle.cli.ids import resolve_id

    return list(dict.fromkeys(resolve_id(app.database, each) for each in ids))


def complete_job_types(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Shell completion: the job types of the application, if one is named."""
    from treadle.app.load import load_app

    try:
        spec = context.params.get("app") or value_of("app")
        return [name for name in load_app(spec).job_types if name.startswith(incomplete)] if spec else []
    except Exception:  # a broken application must not break the command line that is being typed
        return []

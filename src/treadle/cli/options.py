"""Options that several commands have."""

import click

from treadle.words.naming import SCHEMA

database_url = click.option(
    "--database-url",
    metavar="URL",
    help="The database. [default: TREADLE_DATABASE_URL, else DATABASE_URL, else the embedded server]",
)
schema = click.option(
    "--schema", envvar="TREADLE_SCHEMA", default=SCHEMA, show_default=True, help="The schema of the queue."
)

"""treadle pauses."""

from datetime import UTC, datetime

import click

from treadle.app.treadle import Treadle
from treadle.cli.options import as_json, database_url, opened, schema
from treadle.cli.output import Column, print_json, say, screen, show_table
from treadle.db.queries import operations as operation_queries
from treadle.text.masking import masked
from treadle.words.formatting import age, printable

COLUMNS = [Column("TYPE", 10), Column("QUEUE", 10), Column("AGE"), Column("ACTOR", 10), Column("REASON", 10)]


@click.command()
@as_json
@database_url
@schema
def pauses(as_json: bool, database_url: str | None, schema: str) -> None:
    """List the pauses, with their age, actor and reason.

    \b
    treadle pauses
    """
    with opened(database_url, schema) as app:
        show_pauses(app, as_json)


def show_pauses(app: Treadle, as_json: bool) -> None:
    found = masked(app.database.read(operation_queries.find_pauses()))
    if as_json:
        for each in found:
            print_json(each)
        return
    if not found:
        say("Nothing is paused.", stderr=True)
        return
    now = datetime.now(UTC)
    rows = [
        [
            printable(each.job_type or "all"),
            printable(each.queue or "all"),
            age((now - each.paused_at).total_seconds()),
            printable(each.paused_by or ""),
            printable(each.reason or ""),
        ]
        for each in found
    ]
    show_table(screen(), COLUMNS, rows)

"""treadle why."""

import json
import sys
from datetime import datetime
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from treadle.app import Treadle
from treadle.app.why import why as reason_of
from treadle.cli.ids import meant
from treadle.cli.options import database_url, schema
from treadle.words.phrases import printable
from treadle.words.reason import Reason, clock


@click.command()
@click.argument("job", metavar="ID")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@database_url
@schema
def why(job: str, as_json: bool, database_url: str | None, schema: str) -> None:
    """Say why a job does not run: the one reason, and what to do.

    ID may be shortened to its first 8 digits or more, if no other job's id begins so.

    \b
    treadle why 0199b1c2-7a3e-7c51-9d4b-2f6a8e0c1d35
    treadle why 0199b1c27a3e --json | jq -r .name
    """
    app = Treadle(database_url, schema=schema)
    try:
        job_id = meant(app.database, job)
        reason = reason_of(app.database, job_id)
    finally:
        app.close()
    if as_json:
        # In ASCII: every terminal can show it, and none obeys it.
        print(json.dumps({"id": str(job_id), **_plain(reason)}, default=str))
        return
    console = Console(file=sys.stdout, highlight=False, markup=False, emoji=False)
    for line in _lines(reason):
        console.print(line, soft_wrap=True)


def _lines(reason: Reason) -> list[Text]:
    lines = [Text(reason.sentence, style="bold"), Text(reason.remedy, style="cyan")]
    if reason.also:
        lines += [Text(), Text("Also in the way, after that:")]
        lines += [Text(f"  {each.name:<20} it {each.short}") for each in reason.also]
    lines += [Text(), Text(f"{'reason':<17} {reason.name}", style="dim")]
    for name, value in reason.data.items():
        if value not in (None, []):
            lines.append(Text(f"{name:<17} {_shown(value)}", style="dim"))
    return lines


def _shown(value: Any) -> str:
    if isinstance(value, datetime):
        return clock(value)
    if isinstance(value, float):
        return f"{value:.3g}"
    if isinstance(value, list):
        value = ", ".join(map(str, value))
    return printable(str(value))


def _plain(reason: Reason) -> dict[str, Any]:
    data = {name: value.isoformat() if isinstance(value, datetime) else value for name, value in reason.data.items()}
    return reason._asdict() | {"data": data, "also": [each._asdict() for each in reason.also]}

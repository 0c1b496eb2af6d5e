"""treadle why."""

from datetime import datetime
from typing import Any

import click
from rich.text import Text

from treadle.cli.options import as_json, database_url, job_ids, opened, schema
from treadle.cli.output import print_json, screen, write
from treadle.text.masking import masked
from treadle.why.explain import why as reason_of
from treadle.why.reason import Reason
from treadle.why.text import utc
from treadle.words.formatting import printable


@click.command()
@click.argument("job", metavar="ID")
@as_json
@database_url
@schema
def why(job: str, as_json: bool, database_url: str | None, schema: str) -> None:
    """Explain why a job does not run, and what to do about it.

    ID can be shortened to its first or last digits if they are unique.

    \b
    treadle why 0199b1c2-7a3e-7c51-9d4b-2f6a8e0c1d35
    treadle why 0199b1c27a3e --json | jq -r .name
    """
    with opened(database_url, schema) as app:
        (job_id,) = job_ids(app, [job])
        reason = masked(reason_of(app.database, job_id))
    show_reason(reason, {"id": job_id} if as_json else None)


def show_reason(reason: Reason, named: dict[str, Any] | None) -> None:
    """`named`: what it is the reason of, to print JSON."""
    if named is not None:
        print_json({**named, **reason._asdict()})
        return
    console = screen()
    for line in _lines(reason):
        write(console, line)


def _lines(reason: Reason) -> list[Text]:
    lines = [Text(reason.sentence, style="bold"), Text(reason.remedy, style="cyan")]
    if reason.also:
        lines += [Text(), Text("Other reasons, once this one is resolved:")]
        lines += [Text(f"  {each.name:<20} it {each.short}") for each in reason.also]
    lines += [Text(), Text(f"{'name':<17} {reason.name}", style="dim")]
    for name, value in reason.data.items():
        if value not in (None, []):
            lines.append(Text(f"{name:<17} {_shown(value)}", style="dim"))
    return lines


def _shown(value: Any) -> str:
    if isinstance(value, datetime):
        return utc(value)
    if isinstance(value, float):
        return f"{value:.3g}"
    if isinstance(value, list):
        value = ", ".join(map(str, value))
    return printable(str(value))

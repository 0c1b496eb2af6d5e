"""treadle doctor."""

import sys
from collections.abc import Sequence

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from treadle.app.treadle import Treadle
from treadle.cli.options import database_url, schema
from treadle.cli.output import print_json
from treadle.doctor import Finding, Severity, worst
from treadle.doctor.examine import examine
from treadle.text.masking import masked
from treadle.words.errors import TreadleError
from treadle.words.formatting import printable

# 2 is the exit code for wrong arguments, as in every command.
EXIT = {Severity.OK: 0, Severity.NOTE: 0, Severity.WARNING: 1, Severity.CRITICAL: 3}
# Wider than the longest level.
INDENT = 10
STYLES = {Severity.OK: "dim", Severity.NOTE: "cyan", Severity.WARNING: "yellow", Severity.CRITICAL: "bold red"}


class NotExamined(click.ClickException):
    """Exits like a critical finding: to monitoring, a server that cannot be examined is as bad as a broken one."""

    exit_code = EXIT[Severity.CRITICAL]


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print all findings as JSON, one object per line.")
@click.option("--verbose", "-v", is_flag=True, help="Also show the checks that passed.")
@database_url
@schema
def doctor(as_json: bool, verbose: bool, database_url: str | None, schema: str) -> None:
    """Find problems in the database that slow or break the queue.

    It only reads. The exit code is 0 if there is no problem (notes do not count), 1 if there is a warning, and 3 if a
    finding is critical or the server cannot be examined.

    \b
    treadle doctor
    treadle doctor --json | jq 'select(.level != "ok")'
    """
    app = Treadle(database_url, schema=schema)
    try:
        findings = masked(examine(app.database))
    except TreadleError as error:
        raise NotExamined(str(error)) from error
    finally:
        app.close()
    if as_json:
        for each in findings:
            print_json(each)
    else:
        show(Console(highlight=False), findings, verbose)
    sys.exit(EXIT[worst(findings)])


def show(console: Console, findings: Sequence[Finding], verbose: bool) -> None:
    """The worst finding first, each with its remedy."""
    passed = [each for each in findings if each.level is Severity.OK]
    for each in findings:
        if each.level is not Severity.OK:
            _show(console, each)
    if verbose:
        for each in passed:
            line = f"{each.level:<{INDENT}}{each.name}: {printable(each.title)}"
            console.print(Text(line, style="dim"), soft_wrap=True)
    elif len(passed) == len(findings):
        console.print(Text(f"No problems found: {len(passed)} checks passed.", style="green"))
    else:
        console.print(Text(f"{len(passed)} other checks passed; --verbose shows them.", style="dim"))


def _show(console: Console, finding: Finding) -> None:
    title = Text(printable(finding.title), style="bold")
    body = [title + Text(f"  {finding.name}", style="not bold dim")]
    body += [Text(printable(line)) for line in finding.detail.split("\n") if line]
    body += [
        Text(f"{' ' if number else '→'} {printable(line)}", style="green")
        for number, line in enumerate(finding.remedy.split("\n"))
        if line
    ]
    level = Text(finding.level, style=STYLES[finding.level])
    if console.is_terminal:
        grid = Table.grid()
        grid.add_column(width=INDENT)
        for number, line in enumerate(body):
            grid.add_row("" if number else level, line)
        console.print(grid)
    else:
        # Unwrapped, so that lines can be searched and copied.
        for number, line in enumerate(body):
            console.print(f"{'' if number else finding.level:<{INDENT}}" + line.plain, markup=False, soft_wrap=True)
    console.print()

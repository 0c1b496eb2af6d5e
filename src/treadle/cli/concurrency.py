"""treadle concurrency."""

import click

from treadle.app.treadle import Treadle
from treadle.cli.options import actor, as_json, database_url, opened, reason, schema
from treadle.cli.output import Column, print_json, say, screen, show_table
from treadle.words.errors import TreadleError, UnknownWorker
from treadle.words.formatting import count, printable
from treadle.words.overview import WorkerRow

COLUMNS = [
    Column("WORKER", 20),
    Column("JOBS", right=True),
    Column("CONCURRENCY", right=True),
    Column("STARTED WITH", right=True),
    Column("TYPES", 12),
]


# -1 is a number, which is refused with a sentence, and not an option.
@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("worker", required=False)
@click.argument("number", type=int, required=False)
@click.option("--reset", is_flag=True, help="As many as the worker was started with.")
@reason
@actor
@as_json
@database_url
@schema
def concurrency(
    worker: str | None,
    number: int | None,
    reset: bool,
    reason: str | None,
    actor: str,
    as_json: bool,
    database_url: str | None,
    schema: str,
) -> None:
    """Change how many jobs a live worker runs at once, until it ends.

    Running jobs continue; with 0, the worker claims nothing. WORKER can be shortened to a unique beginning. Each
    process of treadle worker --processes is a worker of its own. Without arguments, this command lists the live
    workers.

    \b
    treadle concurrency
    treadle concurrency web-1-4711-0c2a51fe 20
    treadle concurrency web-1-4711 0 --reason "the database is slow"
    treadle concurrency web-1-4711 --reset
    """
    if worker is not None and (number is None) != reset:
        raise click.UsageError("give either a NUMBER or --reset")
    if worker is None and reset:
        raise click.UsageError("--reset needs a WORKER")
    with opened(database_url, schema) as app:
        if worker is None:
            _show([each for each in app.workers() if each.alive], as_json)
        else:
            _change(app, worker, number, actor, reason, as_json)


def _change(app: Treadle, text: str, number: int | None, actor: str, reason: str | None, as_json: bool) -> None:
    worker = _resolve([each for each in app.workers() if each.alive], text)
    name = printable(worker.worker_id)
    if number is None:
        changed = app.workers.reset_concurrency(worker.worker_id, actor=actor, reason=reason)
    else:
        changed = app.workers.set_concurrency(worker.worker_id, number, actor=actor, reason=reason)
    now = worker.initial_concurrency if number is None else number
    if as_json:
        print_json(
            {"worker_id": worker.worker_id, "concurrency": now, "before": worker.concurrency, "changed": changed}
        )
    elif not changed:
        say(f"Nothing to change: the concurrency of {name} is {now:,}.")
    elif number is None:
        say(f"Reset the concurrency of {name} to {now:,}, which it was started with.")
    else:
        nothing = ": it claims nothing" if number == 0 else ""
        say(f"Set the concurrency of {name} to {now:,}{nothing}. To undo: treadle concurrency {name} --reset")


def _resolve(workers: list[WorkerRow], text: str) -> WorkerRow:
    """The live worker of this name, or the only one whose name begins with it."""
    found = [each for each in workers if each.worker_id == text]
    found = found or [each for each in workers if text and each.worker_id.startswith(text)]
    if not found:
        raise UnknownWorker(text)
    if len(found) > 1:
        examples = ", ".join(each.worker_id for each in found[:5])
        raise TreadleError(
            f"{text} is ambiguous: several workers have names that begin with it, such as {examples}; give more of it"
        )
    return found[0]


def _show(workers: list[WorkerRow], as_json: bool) -> None:
    if as_json:
        for each in workers:
            print_json(each)
        return
    if not workers:
        say("No workers are running.", stderr=True)
        return
    rows = [
        [
            printable(each.worker_id),
            count(each.holds),
            _number(each.concurrency),
            _number(each.initial_concurrency),
            ", ".join(map(printable, each.job_types or ["manual claims"])),
        ]
        for each in workers
    ]
    show_table(screen(), COLUMNS, rows)


def _number(value: int | None) -> str:
    return "-" if value is None else count(value)

"""What retry, cancel, delete, priority and run-now share: jobs by id at once, jobs by filter after a question."""

import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar
from uuid import UUID

import click

from treadle.app import Treadle
from treadle.cli.bulk import change_by_filter
from treadle.cli.filters import filters, wanted_from
from treadle.cli.options import actor, as_json, database_url, job_ids, opened, reason, schema
from treadle.cli.output import print_json, say
from treadle.db.queries import operations as operate
from treadle.db.queries import snapshots as snapshot_queries
from treadle.db.query import Query
from treadle.words.changes import Action, Change, ChangeResult
from treadle.words.listing import Wanted
from treadle.words.phrases import printable
from treadle.words.snapshot import JobSnapshot
from treadle.words.status import Status

Function = TypeVar("Function", bound=Callable[..., Any])

_OPTIONS = [
    click.argument("ids", nargs=-1, metavar="[ID]..."),
    filters,
    click.option("--yes", is_flag=True, help="Do not ask; for scripts."),
    click.option("--dry-run", is_flag=True, help="Say what would be changed, and change nothing."),
    reason,
    actor,
    as_json,
    database_url,
    schema,
]


def change_options(function: Function) -> Function:
    """Which jobs, and how."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def change(action: Action, asked: dict[str, Any], priority: int | None = None) -> None:
    """What the command does with its options."""
    wanted, typed = wanted_from(asked), asked["ids"]
    if not typed and wanted == Wanted():
        raise click.UsageError("which jobs? name their ids, or filters such as --status failed --type mail")
    if typed and wanted != Wanted():
        raise click.UsageError("jobs are meant by their ids or by filters, not by both")
    meant = Change(action, asked["actor"], asked["reason"], priority)
    with opened(asked["database_url"], asked["schema"]) as app:
        if typed:
            ids = job_ids(app, typed)
            change_by_id(app, meant, ids, as_json=asked["as_json"], dry_run=asked["dry_run"])
        else:
            change_by_filter(app, meant, wanted, yes=asked["yes"], as_json=asked["as_json"], dry_run=asked["dry_run"])


def change_by_id(app: Treadle, change: Change, ids: Sequence[UUID], *, as_json: bool, dry_run: bool) -> None:
    """At once. Ends with 1 if nothing was done; in a dry run, if there is none of them."""
    before = _seen(app, ids)
    if dry_run:
        for job_id in ids:
            job = before.get(job_id)
            if as_json:
                status = None if job is None else job.status
                outcome = "missing" if job is None else None
                print_json({"id": job_id, "action": change.action, "outcome": outcome, "was": status, "is": status})
            else:
                say(_would(change, job_id, job), stderr=job is None)
        if not before:
            sys.exit(1)
        return
    changed: list[ChangeResult] = []
    for start in range(0, len(ids), operate.CHUNK):
        some: list[ChangeResult] = app.database.run(_query(app, change, ids[start : start + operate.CHUNK]))
        changed += some
    after, outcomes = _seen(app, ids), {each.id: each for each in changed}
    for job_id in ids:
        came, now = outcomes[job_id], after.get(job_id)
        if as_json:
            is_now = None if now is None else now.status
            print_json(
                {"id": job_id, "action": change.action, "outcome": came.outcome, "was": came.status, "is": is_now}
            )
        else:
            said = _sentence(change, came, before.get(job_id), now)
            say(said, stderr=came.outcome != "done")
    if not any(each.outcome == "done" for each in changed):
        sys.exit(1)


def _query(app: Treadle, change: Change, ids: Sequence[UUID]) -> Query[list[ChangeResult]]:
    return operate.operate(change.action, ids, change.actor, change.reason, change.priority)


def _seen(app: Treadle, ids: Sequence[UUID]) -> dict[UUID, JobSnapshot]:
    return {each.id: each for each in app.database.look(snapshot_queries.find_snapshots(ids))}


def _would(change: Change, job_id: UUID, job: JobSnapshot | None) -> str:
    if job is None:
        return f"there is no job {job_id}; it may have been pruned"
    return f"{printable(job.job_type)} {job_id} is {job.status}, and would be {change.done} if that allows it"


def _sentence(change: Change, came: ChangeResult, before: JobSnapshot | None, now: JobSnapshot | None) -> str:
    name = f"{printable(before.job_type)} {came.id}" if before else str(came.id)
    match came.outcome:
        case "done":
            is_now = "" if now is None or now.status == came.status else f", is {now.status} now"
            return f"{change.done}: {name} (was {came.status}{is_now})"
        case "missing":
            return f"there is no job {came.id}; it may have been pruned"
        case "busy":
            return f"{name}: somebody holds its row just now; try again"
    return f"{name} {why_not(change, came.status, before)}"


def why_not(change: Change, status: Status | None, job: JobSnapshot | None) -> str:
    """Why a job of this status was left as it is."""
    match change.action, status:
        case Action.RETRY, Status.PENDING:
            return "is pending: it runs without that; treadle run-now makes it due"
        case Action.RUN_NOW, Status.PENDING:
            return "is due already"
        case Action.PRIORITY, (Status.PENDING | Status.CLAIMED | Status.RUNNING):
            return f"has priority {change.priority} already"
        case Action.DELETE, (Status.CLAIMED | Status.RUNNING):
            return f"is {status}: a handler is at work; cancel it first"
        case ((Action.RETRY | Action.RUN_NOW), (Status.CLAIMED | Status.RUNNING)):
            return f"is {status} already"
    return f"is {status}, so it cannot be {change.done}"

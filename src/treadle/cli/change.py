"""What retry, cancel, delete, run-now and priority share.

Jobs given by id are changed at once, jobs selected by filters after a confirmation.
"""

import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar
from uuid import UUID

import click

from treadle.app.treadle import Treadle
from treadle.cli.bulk import change_by_filter
from treadle.cli.filters import filter_from, filters
from treadle.cli.options import actor, as_json, database_url, job_ids, opened, reason, schema
from treadle.cli.output import print_json, say
from treadle.cli.wording import imperative, participle, past
from treadle.db.queries import operations as operation_queries
from treadle.db.queries import snapshots as snapshot_queries
from treadle.db.query import Query
from treadle.words.changes import Action, Change, ChangeResult
from treadle.words.formatting import printable
from treadle.words.listing import JobFilter
from treadle.words.snapshot import JobSnapshot
from treadle.words.status import Status

Function = TypeVar("Function", bound=Callable[..., Any])

_OPTIONS = [
    click.argument("ids", nargs=-1, metavar="[ID]..."),
    filters,
    click.option("--yes", is_flag=True, help="Do not ask for confirmation."),
    click.option("--dry-run", is_flag=True, help="Show what would be changed, and change nothing."),
    reason,
    actor,
    as_json,
    database_url,
    schema,
]


def change_options(function: Function) -> Function:
    """Adds the arguments and options that these commands share."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def run(action: Action, options: dict[str, Any], priority: int | None = None) -> None:
    """Runs the command with the values of its options."""
    job_filter, typed_ids = filter_from(options), options["ids"]
    if not typed_ids and job_filter == JobFilter():
        raise click.UsageError("no jobs selected; give their ids, or filters such as --status failed --type mail")
    if typed_ids and job_filter != JobFilter():
        raise click.UsageError("give either ids or filters, not both")
    change = Change(action, options["actor"], options["reason"], priority)
    as_json, dry_run = options["as_json"], options["dry_run"]
    with opened(options["database_url"], options["schema"]) as app:
        if typed_ids:
            change_by_id(app, change, job_ids(app, typed_ids), as_json=as_json, dry_run=dry_run)
        else:
            change_by_filter(app, change, job_filter, yes=options["yes"], as_json=as_json, dry_run=dry_run)


def change_by_id(app: Treadle, change: Change, ids: Sequence[UUID], *, as_json: bool, dry_run: bool) -> None:
    """Exits with 1 if no job was changed; in a dry run, if none of the jobs exists."""
    before = _snapshots(app, ids)
    if dry_run:
        for job_id in ids:
            job = before.get(job_id)
            if as_json:
                status = None if job is None else job.status
                outcome = "missing" if job is None else None
                print_json({"id": job_id, "action": change.action, "outcome": outcome, "was": status, "is": status})
            else:
                say(_dry_run_sentence(change, job_id, job), stderr=job is None)
        if not before:
            sys.exit(1)
        return
    results: list[ChangeResult] = []
    for start in range(0, len(ids), operation_queries.CHUNK):
        chunk: list[ChangeResult] = app.database.run(_query(change, ids[start : start + operation_queries.CHUNK]))
        results += chunk
    after, by_id = _snapshots(app, ids), {each.id: each for each in results}
    for job_id in ids:
        result, now = by_id[job_id], after.get(job_id)
        if as_json:
            is_now = None if now is None else now.status
            print_json(
                {"id": job_id, "action": change.action, "outcome": result.outcome, "was": result.status, "is": is_now}
            )
        else:
            say(_sentence(change, result, before.get(job_id), now), stderr=result.outcome != "done")
    if not any(each.outcome == "done" for each in results):
        sys.exit(1)


def _query(change: Change, ids: Sequence[UUID]) -> Query[list[ChangeResult]]:
    return operation_queries.change_jobs(change.action, ids, change.actor, change.reason, change.priority)


def _snapshots(app: Treadle, ids: Sequence[UUID]) -> dict[UUID, JobSnapshot]:
    return {each.id: each for each in app.database.read(snapshot_queries.find_snapshots(ids))}


def _dry_run_sentence(change: Change, job_id: UUID, job: JobSnapshot | None) -> str:
    if job is None:
        return _not_found(job_id)
    name = f"{printable(job.job_type)} {job_id}"
    return f"This would {imperative(change, name)}, if its status ({job.status}) allows it."


def _sentence(change: Change, result: ChangeResult, before: JobSnapshot | None, now: JobSnapshot | None) -> str:
    name = f"{printable(before.job_type)} {result.id}" if before else str(result.id)
    match result.outcome:
        case "done":
            is_now = "" if now is None or now.status == result.status else f", now {now.status}"
            return f"{past(change, name)} (was {result.status}{is_now})."
        case "missing":
            return _not_found(result.id)
        case "busy":
            return f"{name} is locked by another transaction; try again."
    return f"{name} {refusal(change, result.status)}."


def _not_found(job_id: UUID) -> str:
    return f"No job has the id {job_id}; it may have been pruned."


def refusal(change: Change, status: Status | None) -> str:
    """Why a job of this status was not changed."""
    match change.action, status:
        case Action.RETRY, Status.PENDING:
            return "is pending and will run anyway; to make it due now, use treadle run-now"
        case Action.RUN_NOW, Status.PENDING:
            return "is already due"
        case Action.PRIORITY, (Status.PENDING | Status.CLAIMED | Status.RUNNING):
            return f"already has priority {change.priority}"
        case Action.DELETE, (Status.CLAIMED | Status.RUNNING):
            return f"is {status} and cannot be deleted; cancel it first"
        case ((Action.RETRY | Action.RUN_NOW), (Status.CLAIMED | Status.RUNNING)):
            return f"is already {status}"
    return f"is {status} and cannot be {participle(change)}"

"""What there is to know about why a job does not run, as a query; and jobs by the beginning of their id."""

import json
import re
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from treadle.db.query import Query, Rows, statement
from treadle.why.facts import Ahead, Facts, Failure, Holder, LiveWorker, Locker
from treadle.words.changes import Pause
from treadle.words.errors import InvalidArgument, JobNotFound
from treadle.words.status import Status

# The first eight digits of an id are a time, to a minute.
SHORTEST = 8


def why(job_id: UUID) -> Query[Facts]:
    def read(rows: Rows) -> Facts:
        if not rows:
            raise JobNotFound(job_id)
        return _facts(rows[0])

    return Query(statement("why_job"), {"id": job_id}, read)


def find_ids(beginning: str, limit: int = 5) -> Query[list[UUID]]:
    """The jobs whose id begins so, oldest first."""
    digits = beginning.replace("-", "").lower()
    if not re.fullmatch(f"[0-9a-f]{{{SHORTEST},32}}", digits):
        raise InvalidArgument(
            f"a job is meant by its id (a uuid) or at least the first {SHORTEST} digits of it, got {beginning!r}"
        )
    params = {"first": UUID(digits.ljust(32, "0")), "last": UUID(digits.ljust(32, "f")), "limit": limit}
    return Query(statement("find_job_ids"), params, lambda rows: [row[0] for row in rows])


def _facts(row: tuple[Any, ...]) -> Facts:
    job, rest = dict(zip(Facts._fields, row[:20], strict=False)), iter(row[20:])

    def take(number: int) -> list[Any]:
        return [next(rest) for _ in range(number)]

    holder = Holder(*take(2))
    (beside,) = take(1)
    failure = take(4)
    cancelled = take(2)
    pauses, blocker, earlier, locker, workers = take(5)
    gone = take(2)
    ahead = take(3)
    ended, ended_in, tick_age = take(3)
    return Facts(
        **job | {"status": Status(job["status"])},
        holder=holder,
        beside=beside or 0,
        failure=None if failure[0] is None else Failure(*failure),
        cancelled_by=cancelled[0],
        cancelled_why=cancelled[1],
        pauses=[_pause(each) for each in json.loads(pauses or "[]")],
        blocker=blocker,
        earlier=earlier or 0,
        locker=None if locker is None else _locker(json.loads(locker)),
        workers=[_worker(each) for each in json.loads(workers or "[]")],
        gone=None if gone[0] is None else (gone[0], gone[1]),
        ahead=Ahead() if ahead[0] is None else Ahead(*ahead),
        ended=None if ended is None else int(ended),
        ended_in=ended_in,
        # A clock that stands at 0 was never set.
        tick_age=None if tick_age > 1_000_000_000 else tick_age,
    )


def _pause(values: list[Any]) -> Pause:
    job_type, queue, paused_at, paused_by, reason = values
    return Pause(job_type, queue, _moment(paused_at), paused_by, reason)


def _worker(values: list[Any]) -> LiveWorker:
    *said, seen_at = values
    return LiveWorker._make([*said, _moment(seen_at)])


def _locker(values: list[Any]) -> Locker:
    pid, application, since = values
    return Locker(pid, application, None if since is None else _moment(since))


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)

"""Jobs that fail, and the groups that their failures are counted in."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from treadle import JobQueue, Retries, Treadle
from treadle.db.queries import error_groups as queries
from treadle.db.queries.error_groups import GroupFilter
from treadle.operations.error_groups import get_groups
from treadle.words.error_group import ErrorGroup

NOW = timedelta(0)


def fail(queue: JobQueue, errors: Iterable[str], job_type: str = "a", *, retries: bool = False) -> None:
    for error in errors:
        queue.enqueue(job_type, retry=Retries(4))
        queue.fail(queue.claim([job_type])[0], error, delay=None if not retries else 3600, final=not retries)


def count_now(app: Treadle) -> int:
    total = 0
    while True:
        done = app.database.run(queries.group_errors(lag=NOW))
        total += done.counted
        if not done.more:
            return total


def groups(app: Treadle, **chosen: Any) -> dict[str, ErrorGroup]:
    return {each.title: each for each in get_groups(app.database, GroupFilter(**chosen)).groups}

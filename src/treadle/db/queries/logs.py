"""Log lines of jobs: written for a worker's jobs, read for one job or for several."""

from collections.abc import Mapping, Sequence
from uuid import UUID

from treadle.db.queries.records import flat, ids
from treadle.db.query import Query, Rows, statement
from treadle.words.job import Claim
from treadle.words.record import LogLine, OutgoingLogLine

_LEVELS = {10: "DEBUG", 20: "INFO", 30: "WARNING", 40: "ERROR", 50: "CRITICAL"}


def record_logs(
    worker_id: str,
    logged: Sequence[tuple[Claim, Sequence[OutgoingLogLine]]],
    now: float,
    head: int,
    tail: int,
) -> Query[set[UUID]]:
    """Record the log lines of these claims. Returns the jobs whose lines were accepted."""
    params, lines = flat(worker_id, logged, now)
    params |= {
        "levels": [line.level for line in lines],
        "loggers": [line.logger for line in lines],
        "messages": [line.message for line in lines],
        "head": head,
        "tail": tail,
    }
    return Query(statement("keep_logs"), params, ids)


def get_logs(job_id: UUID, after: int = 0) -> Query[list[LogLine]]:
    return Query(statement("get_logs"), {"id": job_id, "after": after}, _log_lines)


def find_newest_logs(after: Mapping[UUID, int], limit: int) -> Query[dict[UUID, list[LogLine]]]:
    """The newest log lines of each job after a number, oldest first."""
    params = {"ids": list(after), "after": list(after.values()), "limit": limit}

    def read(rows: Rows) -> dict[UUID, list[LogLine]]:
        found: dict[UUID, list[LogLine]] = {}
        for row in rows:
            found.setdefault(row[0], []).extend(_log_lines([row[1:]]))
        return found

    return Query(statement("find_newest_logs"), params, read)


def _log_lines(rows: Rows) -> list[LogLine]:
    return [
        LogLine(number, at, attempt, _LEVELS.get(level, str(level)), logger, message)
        for number, at, attempt, level, logger, message in rows
    ]

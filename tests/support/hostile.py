"""Hostile texts for every text column: they try to become markup, script, headers or terminal commands.

The dashboard shows payloads, events, logs, errors and worker names, which anybody who enqueues a job can choose. None
of these texts may become an element, an attribute, a header or a control sequence. Each of them contains `MARK`.
"""

from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg import Connection
from psycopg.types.json import Jsonb

from tests.support.flags import Flag

MARK = "mark"
# The name of one of the schedules that `fill` adds.
SCHEDULE = "mark nightly"
# The name of one of the limits that `fill` adds.
LIMIT = "mark limit"
# And of one of the workers.
WORKER = "mark worker"
# A job type, and a queue.
PLACE = "mark place"

TEXTS = [
    "<script>window.mark=1</script>",
    "<img src=x onerror=mark=1>",
    "'\"><svg/onload=mark=1>",
    '" autofocus onfocus="mark=1',
    "</title></textarea></pre><h1 id=mark>",
    "]]></script><!--mark",
    "{{7*7}}{% mark %}${7*7}#{7}",
    "javascript:window.mark=1//",
    "&lt;mark&gt;&#60;b&#62;&amp;",
    "\u202emark\u2066txt.exe\u200b",
    "\x1b[2J\x07\x01\x7f\x85mark\u2028\u2029",
    "mark\r\nset-cookie: a=b\r\n\r\n<b>",
    "data: mark\n\nevent: end\ndata: {}",
    "../../mark?a=1&b=2#c%00%0d%0a%",
    "mark\ud7ff\ufffe\U0001f9e8\u0301\u0301\u0301",
]
# A very long text without a place to break it.
HUGE = "<mark>" + "x" * 200_000

STATUSES = ["pending", "claimed", "running", "completed", "failed", "cancelled"]


def fill(connection: Connection[Any], texts: list[str] | None = None) -> list[UUID]:
    """Add jobs, workers, schedules, limits, pauses, audit records and chart data with these texts; return the
    ids of the jobs."""
    # One minute for all of them: a new one may begin while they are added, and charts would have one bar more.
    row = connection.execute("select date_trunc('minute', now()) - interval '10 minutes'").fetchone()
    assert row is not None
    ids = []
    for nth, text in enumerate(TEXTS if texts is None else texts):
        job = _job(connection, text, STATUSES[nth % len(STATUSES)])
        _add_records(connection, job, text)
        _add_surroundings(connection, job, text, row[0])
        _add_schedules(connection, job, text)
        _add_limits(connection, text)
        _add_error_group(connection, job, text)
        ids.append(job)
    connection.execute("select pause(%s), pause(null, %s)", [PLACE, PLACE])  # else there is no such type and queue
    return ids


def group_of(job: UUID) -> int:
    """The id of the group of errors that `fill` adds for a job."""
    return job.int % (2**31 - 1) + 1


def _add_error_group(connection: Connection[Any], job: UUID, text: str) -> None:
    values = {"id": group_of(job), "job": job, "text": text, "short": text[:1000]}
    connection.execute(
        """insert into treadle.error_groups (
            id, job_type, exception, message, failures, first_seen, last_seen, queues, example_job, example_at,
            example_error, example_traceback, muted_at, muted_by, muted_reason
        )
        overriding system value
        values (
            %(id)s, left(%(text)s, 50), %(short)s, %(short)s, 1, now(), now(), array[left(%(text)s, 50)], %(job)s,
            now(), %(text)s, %(text)s, now(), %(short)s, %(short)s
        )""",
        values,
    )
    connection.execute(
        "insert into treadle.error_group_versions values (%(id)s, left(%(text)s, 100), 1, now(), now())", values
    )
    connection.execute("insert into treadle.grouped_errors values (%(job)s, now(), %(id)s)", values)


def _job(connection: Connection[Any], text: str, status: str) -> UUID:
    claimed = status in ("claimed", "running")
    row = connection.execute(
        """
        insert into treadle.jobs (
            job_type, queue, status, key, unique_key, worker_id, current_stage, last_error, data, result, checkpoint,
            pace, flags, attempts, lease, events_count, claimed_at, started_at, finished_at)
        values (
            left(%(text)s, 50), left(%(text)s, 50), %(status)s, left(%(text)s, 200), left(%(text)s, 200),
            case when %(claimed)s then left(%(text)s, 100) end, left(%(text)s, 100), %(text)s, %(json)s, %(json)s,
            %(json)s, %(pace)s, %(flags)s, 1, 1, 1, now(), now(), case when %(finished)s then now() end)
        returning id
        """,
        {
            "text": text,
            "status": status,
            "claimed": claimed,
            "finished": status in ("completed", "failed", "cancelled"),
            "json": Jsonb(_nested(text)),
            "flags": Flag.EVENTS | Flag.LOGS | Flag.STEPS,
            "pace": Jsonb({"done": 1, "total": 2, "rate": 1.5, "left": 3.0}),
        },
    ).fetchone()
    assert row is not None
    job: UUID = row[0]
    return job


def _add_records(connection: Connection[Any], job: UUID, text: str) -> None:
    values = {"id": job, "text": text, "json": Jsonb(_nested(text))}
    connection.execute(
        """insert into treadle.errors (job_id, attempt, worker_id, error, traceback, lease, started_at)
        values (%(id)s, 1, left(%(text)s, 100), %(text)s, %(text)s, 1, now())""",
        values,
    )
    connection.execute(
        """insert into treadle.events (job_id, number, job_type, attempt, lease, sequence, happened_at, name, data)
        values (%(id)s, 1, left(%(text)s, 50), 1, 1, 1, now(), left(%(text)s, 100), %(json)s)""",
        values,
    )
    connection.execute(
        """insert into treadle.logs (job_id, number, attempt, lease, sequence, logged_at, level, logger, message)
        values (%(id)s, 1, 1, 1, 1, now(), 13, %(text)s, %(text)s)""",
        values,
    )
    connection.execute(
        """insert into treadle.steps (job_id, position, name, result, lease)
        values (%(id)s, 1, left(%(text)s, 200), %(json)s, 1)""",
        values,
    )


def _add_surroundings(connection: Connection[Any], job: UUID, text: str, minute: datetime) -> None:
    values = {"id": job, "text": text, "json": Jsonb(_nested(text)), "minute": minute}
    for name in (text[:100], WORKER):
        connection.execute(
            """insert into treadle.workers (
                worker_id, lease, job_types, queues, concurrency, host, pid, version, stuck_since, stuck_kind,
                stuck_job, stuck_job_type, stuck_stack
            )
            values (
                %(name)s, '1 hour', array[left(%(text)s, 50)], array[left(%(text)s, 50)], 1, %(text)s, 1, %(text)s,
                now(), 'blocked', %(id)s, left(%(text)s, 50), '  File "' || %(text)s || '", line 1, in ' || %(text)s
            )
            on conflict do nothing""",
            values | {"name": name},
        )
    connection.execute(
        """insert into treadle.pauses (job_type, queue, paused_by, reason)
        values (left(%(text)s, 50), left(%(text)s, 50), %(text)s, %(text)s)""",
        values,
    )
    connection.execute(
        """insert into treadle.audit (actor, action, job_id, job_type, queue, reason, details)
        values (%(text)s, left(%(text)s, 50), %(id)s, left(%(text)s, 50), left(%(text)s, 50), %(text)s, %(json)s)""",
        values,
    )
    connection.execute(
        """insert into treadle.minutes (minute, queue, job_type, completed, waited, ran)
        values (%(minute)s, left(%(text)s, 50), left(%(text)s, 50), 1, 1, 1)""",
        values,
    )


def _add_schedules(connection: Connection[Any], job: UUID, text: str) -> None:
    # One of them has a name that tests know.
    for name in (text[:100], SCHEDULE):
        values = {"id": job, "text": text, "name": name, "json": Jsonb(_nested(text))}
        connection.execute(
            """insert into treadle.schedules (
                name, job_type, queue, data, expression, timezone, error, next_at, last_at, last_job, key)
            values (
                %(name)s, left(%(text)s, 50), left(%(text)s, 50), %(json)s, left(%(text)s, 1000), left(%(text)s, 100),
                %(text)s, now() + interval '1 hour', now(), %(id)s, left(%(text)s, 200))
            on conflict do nothing""",
            values,
        )
        connection.execute(
            """insert into treadle.occurrences (schedule, scheduled_for, job_id)
            values (%(name)s, now() - interval '1 hour', %(id)s) on conflict do nothing""",
            values,
        )


def _nested(text: str) -> dict[str, Any]:
    return {text: text, "list": [text, {text: [text]}], "number": 1e300, "none": None}


def _add_limits(connection: Connection[Any], text: str) -> None:
    """A limit without keys, and one with a key that jobs wait for and one that was changed."""
    for name, per in ((text[:100], ""), (LIMIT, text[:50])):
        connection.execute(
            """insert into treadle.limits (name, kind, per, amount, changed_by, changed_at)
            values (%(name)s, 'concurrency', %(per)s, 0, %(text)s, now()) on conflict do nothing""",
            {"name": name, "per": per, "text": text},
        )
        connection.execute(
            """insert into treadle.limit_targets (job_type, queue, name) values (left(%(text)s, 50), '', %(name)s),
            ('', left(%(text)s, 50), %(name)s) on conflict do nothing""",
            {"name": name, "text": text},
        )
    connection.execute(
        """insert into treadle.limit_keys (name, key, amount, changed_by, changed_at)
        values (%(name)s, left(%(text)s, 200), 3, %(text)s, now())""",
        {"name": LIMIT, "text": text},
    )
    connection.execute(
        """insert into treadle.lanes
            (queue, job_type, priority, partition, limit_name, limit_key, dormant_xid, changed_at)
        values (left(%(text)s, 50), left(%(text)s, 50), 100, '', %(name)s, left(%(text)s, 200), '3', now())""",
        {"name": LIMIT, "text": text},
    )

"""Creates ten million finished and one million pending jobs within minutes: python -m benchmarks.many_jobs URL

The jobs look like a month of work: five job types in three queues, one type is rare; 10 % of the jobs have a key; some
are running, some are due later, some are blocked by an earlier job with their key. Triggers are disabled, and indexes
are created at the end.
"""

import argparse
import os
from collections.abc import Callable
from time import perf_counter

from psycopg import Connection
from psycopg.rows import TupleRow

from treadle import migrate
from treadle.db.setup_connection import connect

FINISHED, PENDING, RUNNING, WORKERS = 10_000_000, 1_000_000, 2_000, 20
CHUNK = 500_000

# The job type of job n: 50 %, 25 %, 15 % and 10 %; yearly_report is 1 in 500,000.
_TYPE = """case
    when n %% 500000 = 7 then 'yearly_report'
    when n %% 100 < 50 then 'send_email'
    when n %% 100 < 75 then 'resize_image'
    when n %% 100 < 90 then 'import_rows'
    else 'sync_account'
end"""
_QUEUE = "case when n %% 100 < 50 then 'mail' when n %% 100 < 90 then 'default' else 'slow' end"
_PRIORITY = "case n %% 7 when 0 then 150 when 1 then 30 else 100 end"
# As new_id() creates them, but for a time in the past.
_ID = """(lpad(to_hex((extract(epoch from created) * 1000)::bigint), 12, '0')
    || '7' || substr(md5(n::text), 1, 3) || '8' || substr(md5(n::text), 4, 15))::uuid"""
_DATA = """jsonb_build_object('user_id', n, 'name', 'customer ' || n, 'path', '/srv/files/' || md5(n::text),
    'tags', jsonb_build_array('a', 'b', n %% 10))"""

FINISHED_ROWS = f"""
insert into treadle.jobs (
    id, job_type, queue, priority, status, data, progress, worker_id, claimed_at, created_at, started_at, completed_at,
    finished_at, attempts, last_error, run_at, lease, key, result
)
select
    {_ID}, {_TYPE}, {_QUEUE}, {_PRIORITY}, status, {_DATA},
    case status when 'completed' then 100 else n %% 100 end, 'host-' || n %% {WORKERS}, created + waited, created,
    created + waited, case status when 'completed' then created + waited + ran end, created + waited + ran,
    case status when 'failed' then 3 else 1 end,
    case status
        when 'failed' then (array['ConnectionError', 'TimeoutError', 'ValueError', 'KeyError'])[n %% 4 + 1]
            || ': server ' || n %% 50 || ' refused the connection (customer ' || n || ')'
        when 'cancelled' then 'not wanted any more'
    end,
    created, 1, case when n %% 10 = 0 then 'user:' || n %% 100000 end,
    case status when 'completed' then to_jsonb(n) end
from (
    select
        n,
        now() - interval '30 days' + n * (interval '30 days' / %(total)s) - interval '2 minutes' as created,
        interval '1 millisecond' * (n * 7919 %% 30000) as waited,
        interval '1 millisecond' * (n * 104729 %% 60000) as ran,
        -- Spread over all job types, and not always the same ones.
        case when n * 7919 %% 100003 %% 100 < 90 then 'completed' when n * 7919 %% 100003 %% 100 < 98 then 'failed'
            else 'cancelled' end as status
    from generate_series(%(first)s::bigint, %(last)s::bigint) as n
) as job"""

# 2 % are blocked by an earlier job with their key, 10 % are due within the next days.
PENDING_ROWS = f"""
insert into treadle.jobs (id, job_type, queue, priority, data, created_at, run_at, holds, key)
select {_ID}, {_TYPE}, {_QUEUE}, {_PRIORITY}, {_DATA}, created,
    case when n %% 10 = 3 then now() + n * interval '0.3 seconds' else created end,
    case when n %% 50 = 0 then 1 else 0 end,
    case when n %% 50 = 0 then 'account:' || n %% 1000 end
from (
    select n, now() - interval '1 hour' + n * (interval '1 hour' / %(total)s) as created
    from generate_series(%(first)s::bigint, %(last)s::bigint) as n
) as job"""

RUNNING_ROWS = f"""
insert into treadle.jobs (
    id, job_type, queue, priority, status, data, progress, current_stage, worker_id, claimed_at, created_at, started_at,
    run_at, attempts, lease, key
)
select {_ID}, {_TYPE}, {_QUEUE}, {_PRIORITY}, case when n %% 10 = 0 then 'claimed' else 'running' end, {_DATA},
    n %% 100, 'sending', 'host-' || n %% {WORKERS}, created, created,
    case when n %% 10 > 0 then created end, created, 1, 1,
    case when n <= 20 then 'account:' || n * 50 %% 1000 end
from (
    select n, clock_timestamp() - n * interval '50 milliseconds' as created
    from generate_series(1, {RUNNING}) as n
) as job"""

OTHER_TABLES = [
    """insert into treadle.lanes (queue, job_type, priority)
    select distinct queue, job_type, priority from treadle.jobs where status = 'pending'""",
    f"""insert into treadle.workers (worker_id, lease, job_types, concurrency, host, pid)
    select 'host-' || n, interval '1 day', '{{send_email,resize_image,import_rows,sync_account}}', 100, 'host-' || n, n
    from generate_series(0, {WORKERS - 1}) as n""",
    """insert into treadle.errors (job_id, attempt, failed_at, worker_id, error, traceback, lease, started_at)
    select id, attempt, finished_at - (3 - attempt) * interval '1 second', worker_id, last_error,
        'Traceback (most recent call last): …', 1, started_at
    from (select * from treadle.jobs where status = 'failed' order by finished_at desc limit 20000) as job,
        generate_series(1, 3) as attempt""",
    """insert into treadle.events (job_id, number, job_type, attempt, lease, sequence, happened_at, name, data)
    select id, number, job_type, 1, 1, number, started_at, 'sent', '{"bytes": 1834}'
    from treadle.jobs, generate_series(1, 20) as number where status = 'running'""",
    "update treadle.jobs set events_count = 20, flags = 1 where status = 'running'",
    """insert into treadle.minutes (
        minute, queue, job_type, completed, failed, cancelled, errors, waited, waited_most, ran, ran_most,
        waited_counts, ran_counts, slowest_id)
    select date_trunc('minute', finished_at), queue, job_type,
        count(*) filter (where status = 'completed'), count(*) filter (where status = 'failed'),
        count(*) filter (where status = 'cancelled'), count(*) filter (where status = 'failed'),
        sum(extract(epoch from claimed_at - run_at)), max(extract(epoch from claimed_at - run_at)),
        sum(extract(epoch from finished_at - claimed_at)), max(extract(epoch from finished_at - claimed_at)),
        treadle.count_by_bucket(array_agg(extract(epoch from claimed_at - run_at)) filter (where status = 'completed')),
        treadle.count_by_bucket(
            array_agg(extract(epoch from finished_at - claimed_at)) filter (where status = 'completed')),
        (array_agg(id order by finished_at - claimed_at desc))[1]
    from treadle.jobs
    where status in ('completed', 'failed', 'cancelled') and finished_at > now() - interval '7 days'
    group by 1, 2, 3""",
    "update treadle.meter set reached = clock_timestamp()",
    # What workers count as time goes by: an hour of minutes, 2,000 errors and 300,000 waiting jobs in each call.
    "select count(treadle.sum_minutes(clock_timestamp())) from generate_series(1, 200)",
    "select sum(counted) from generate_series(1, 40) as nth, treadle.group_errors(p_pause => nth * interval '0')",
    "select treadle.count_depths(p_limit => 2000000000, p_time => '1 hour')",
    """insert into treadle.depth_history (minute, queue, job_type, jobs)
    select past.minute, known.queue, known.job_type, known.jobs * (1 + minute_of_week %% 60) / 30
    from treadle.depth_history as known,
        generate_series(1, 10000) as minute_of_week,
        lateral (select known.minute - minute_of_week * interval '1 minute') as past (minute)""",
]


def make(url: str, finished: int = FINISHED, pending: int = PENDING, report: Callable[[str], object] = print) -> None:
    began = perf_counter()
    migrate(url)
    with connect(url) as connection:
        found = connection.execute(
            "select indexname, indexdef from pg_indexes where schemaname = 'treadle' and tablename = 'jobs'"
        ).fetchall()
        indexes = [(name, definition) for name, definition in found if name != "jobs_pkey"]
        connection.execute("set session_replication_role = replica")
        connection.execute("set synchronous_commit = off")
        connection.execute("set maintenance_work_mem = '1GB'")
        for name, _ in indexes:
            connection.execute(f"drop index treadle.{name}".encode())
        for rows, total in ((FINISHED_ROWS, finished), (PENDING_ROWS, pending)):
            for first in range(1, total + 1, CHUNK):
                _run(connection, rows, first=first, last=min(first + CHUNK - 1, total), total=total)
                report(f"{first + CHUNK - 1:,} of {total:,}, {perf_counter() - began:.0f} s")
        _run(connection, RUNNING_ROWS)
        for _, definition in indexes:
            connection.execute(definition.encode())
        for statement in OTHER_TABLES:
            _run(connection, statement)
        for table in ("jobs", "errors", "events", "lanes", "minutes", "spans", "workers", "depth_history"):
            connection.execute(f"vacuum analyze treadle.{table}".encode())
        size = connection.execute("select pg_size_pretty(pg_database_size(current_database()))").fetchone()
        report(f"{perf_counter() - began:.0f} s, {size[0] if size else '?'}")


def _run(connection: Connection[TupleRow], text: str, **params: int) -> None:
    # Parameters are always passed, so that psycopg turns %% into % in every statement.
    connection.execute(text.encode(), params)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("url", default=os.environ.get("TREADLE_DATABASE_URL"))
    parser.add_argument("--finished", type=int, default=FINISHED)
    parser.add_argument("--pending", type=int, default=PENDING)
    options = parser.parse_args()
    make(options.url, options.finished, options.pending)


if __name__ == "__main__":
    main()

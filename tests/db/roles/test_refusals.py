"""The database refuses, statement by statement, what each role must not do."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import Connection

from tests.support.roles import Roles, granted_roles
from treadle import JobQueue, Treadle
from treadle.db.roles import GROUPS

ENQUEUE, WORKER, VIEWER, OPERATOR = GROUPS

READING = {
    "payloads": "select data from jobs",
    "results": "select result from jobs",
    "checkpoints": "select checkpoint from jobs",
    "whole jobs": "select * from jobs",
    "results of steps": "select result from steps",
    "stored bytes": "select bytes from stored_parts",
    "places of files": "select place from stored",
    "jobs of a worker": "select * from find_claimed_jobs('w')",
}
READING_ALL = {
    "statuses": "select status from jobs",
    "keys": "select key, unique_key from jobs",
    "errors": "select error from errors",
    "last errors": "select last_error from jobs",
    "events": "select name from events",
    "events of a job": "select * from job_events(gen_random_uuid())",
    "logs": "select message from logs",
    "steps": "select name from steps",
    "stored things": "select id from stored",
    "uses": "select * from stored_uses",
    "lanes": "select * from lanes",
    "workers": "select * from workers",
    "concurrency of workers": "select * from worker_concurrency",
    "ends": "select find_finished('{}')",
    "asking for ends": "select request_notifications('ends')",
    "asking for news": "select request_notifications('news')",
    "the clock of ticks": "select last_value from tick_clock",
    "pauses": "select * from pauses",
    "the audit": "select * from audit",
    "charts": "select * from minutes, meter",
    "metrics": "select * from totals, find_lanes(), time_buckets()",
    "numbers of jobs": "select * from depths, depth_history, find_depths(), count_statuses()",
    "limits": "select * from limits, limit_targets, limit_keys, limit_holders, limit_openings, unlisted_limits",
    "fairness and aging": "select * from type_settings, fair_weights",
    "limits at a glance": "select * from find_limits()",
    "the state of a limit": "select * from limit_state('a', '', 1, now())",
}
ENQUEUEING = {
    "enqueueing": "select enqueue('b')",
    "enqueueing many": "select enqueue_jobs('b', array['{}'])",
    "enqueueing what is unique": "select enqueue_unique('b', 'u')",
    "inserting a job": "insert into jobs (job_type) values ('b')",
}
WORKING = {
    "claiming": "select * from claim_jobs('w', '{a}')",
    "claiming by the contract": "select * from claim_job_batch('w', '{a}')",
    "claiming by hand": "update jobs set status = 'claimed', worker_id = 'me', lease = lease + 1",
    "locking jobs": "select id from jobs for update",
    "sharing jobs": "select id from jobs for key share",
    "postponing jobs": "update jobs set run_at = '2100-01-01'",
    "holding jobs": "update jobs set holds = 1",
    "completing": "select complete_job(id) from jobs",
    "completing by hand": "update jobs set status = 'completed'",
    "failing": "select fail_job(id, 'x') from jobs",
    "progress": "select report_progress(id, 1, 'x') from jobs",
    "saving": "select save_checkpoint(id, '1', 1, 'w') from jobs",
    "telling": "insert into events (job_id, number, job_type, attempt, lease, happened_at, name) "
    "values (gen_random_uuid(), 1, 'a', 1, 1, now(), 'x')",
    "cancelling by function": "select cancel_job(id) from jobs",
    "retrying by function": "select retry_job(id) from jobs",
    "other payloads": "update jobs set data = '{}'",
    "other types": "update jobs set job_type = 'b'",
    "deleting jobs": "delete from jobs",
    "pruning": "select prune_jobs('completed', '0')",
    "deleting errors": "delete from errors",
    "lanes by hand": "insert into lanes (queue, job_type, priority) values ('q', 'a', 1)",
    "moving floors": "update floors set floor = 'infinity'",
    "ticks": "select tick()",
    "stopping the clock of ticks": "select setval('tick_clock', 1)",
    "ringing": "select setval('wake_clock', 1)",
    "listening for ever": "select setval('watched', 9000000000000000000)",
    "registering": "select register_worker('w', '1 s', '{a}')",
    "heartbeats": "select heartbeat('w')",
    "losing workers": "update workers set lost_at = now()",
    "recovering": "select recover_stale_jobs('0')",
    "storing": "insert into stored (id) values (gen_random_uuid())",
    "removing what is stored": "update stored set removing_at = now()",
    "using what is stored": "insert into stored_uses (stored_id, job_id) select id, id from stored",
    "sweeping": "select sweep_stored('0')",
    "declaring limits": "select declare_limits('[]')",
    "limits by hand": "update limits set amount = 1",
    "limits of keys by hand": "insert into limit_keys (name, key, amount) values ('a', 'b', 1)",
    "freeing slots": "delete from limit_holders",
    "opening limits": "select reopen_limit('a')",
}
OPERATING = {
    f"{action} of a job": f"select operate('{action}', '{{}}', p_priority => 1)"
    for action in ("retry", "cancel", "delete", "run_now", "priority")
}
EDITING = {
    "editing a job": "select edit_job(gen_random_uuid(), '{}')",
    "copying a job": "select copy_job(gen_random_uuid())",
}
SCHEDULING = {
    "adding a schedule": "select put_schedule('x', 'a', '@daily')",
}
PAUSING = {
    "running a schedule": "select operate_schedule('run', 'none')",
    "pausing": "select pause('a')",
    "resuming": "select resume('a')",
    "setting a limit": "select set_limit('a', 1, p_job_type => 'a')",
    "setting the limit of a key": "select set_limit('a', 1, p_key => 'b')",
    "resetting a limit": "select reset_limit('a')",
    "changing the concurrency of a worker": "select set_concurrency('w', 1)",
}
CHARTING = {
    "counting": "select count_minutes(p_lag => '0')",
    "another chart": "update minutes set completed = 1",
    "another reach": "update meter set reached = now()",
}
# Statements that only the owner may run.
OWNING = {
    "an audit line": "insert into audit (actor, action) values ('somebody else', 'delete')",
    "other audit lines": "update audit set actor = 'somebody else'",
    "no audit lines": "delete from audit",
    "pausing without a trace": "insert into pauses (job_type) values ('b')",
    "resuming without a trace": "delete from pauses",
    "another concurrency without a trace": "insert into worker_concurrency values ('w', 1, 'somebody else', now())",
    "other concurrencies without a trace": "update worker_concurrency set concurrency = 1",
    "migrations": "delete from migrations",
    "functions": "update functions set digest = ''",
    "truncating": "truncate jobs",
    "truncating errors": "truncate errors",
    "an index": "create index on jobs (data)",
    "a column": "alter table jobs add column x int",
    "dropping": "drop table jobs cascade",
    "a table in the schema": "create table treadle.x ()",
    "a function in the schema": "create function treadle.x() returns int language sql as 'select 1'",
    "another body": "create or replace function treadle.is_head_of_key(p_key varchar, p_id uuid) returns boolean "
    "language sql as 'select true'",
    "a trigger": "create trigger x before update on jobs execute function suppress_redundant_updates_trigger()",
    "no triggers": "alter table jobs disable trigger all",
    "roles": "create role treadle_x",
    "other errors": "update errors set error = ''",
    "other events": "update events set name = 'x'",
}
# In addition, the columns that only the queue itself may set.
ENQUEUED = {
    f"inserting {column}": f"insert into jobs (job_type, {column}) values ('a', {value})"
    for column, value in {
        "status": "'completed'",
        "holds": "0",
        "lease": "7",
        "attempts": "-5",
        "result": "'1'",
        "worker_id": "'w'",
        "finished_at": "now()",
        "flags": "0",
    }.items()
} | {
    "reading back": "insert into jobs (job_type) values ('a') returning data",
    "upserting": "insert into jobs (job_type) values ('a') on conflict (id) do update set data = '{}'",
}

REFUSED = {
    ENQUEUE: READING
    | READING_ALL
    | WORKING
    | CHARTING
    | ENQUEUED
    | OPERATING
    | EDITING
    | PAUSING
    | SCHEDULING
    | OWNING,
    WORKER: OPERATING | EDITING | OWNING,
    VIEWER: READING | ENQUEUEING | WORKING | CHARTING | OPERATING | EDITING | PAUSING | SCHEDULING | OWNING,
    OPERATOR: EDITING | ENQUEUEING | WORKING | CHARTING | SCHEDULING | OWNING,
}
ALLOWED = {
    ENQUEUE: ENQUEUEING,
    WORKER: READING | READING_ALL | ENQUEUEING | WORKING | CHARTING | PAUSING | SCHEDULING,
    VIEWER: READING_ALL,
    OPERATOR: READING | READING_ALL | OPERATING | PAUSING,
}


@pytest.fixture(scope="module")
def roles(module_url: str) -> Iterator[Roles]:
    """The statements are rolled back, so each of them finds the same data."""
    with granted_roles(module_url) as roles:
        yield roles


@pytest.fixture(scope="module")
def connections(roles: Roles) -> dict[str, Connection[Any]]:
    with JobQueue(roles.url, "w") as queue:
        queue.enqueue("a", {"secret": 1})
    app = Treadle(roles.url)
    app.store(b"large")
    app.close()
    roles.connect().execute("select setval('tick_clock', 0)")
    return {group: roles.connect(group, autocommit=False) for group in GROUPS}


def error_of(connection: Connection[Any], text: str) -> psycopg.Error | None:
    try:
        connection.execute(text.encode())
    except psycopg.Error as error:
        return error
    finally:
        connection.rollback()
    return None


# One test for all statements of a role: setting up four hundred tests took longer than running them.


@pytest.mark.parametrize("group", GROUPS)
def test_a_role_is_refused_what_it_must_not_do(connections: dict[str, Connection[Any]], group: str) -> None:
    errors = {what: error_of(connections[group], text) for what, text in REFUSED[group].items()}
    refusal = psycopg.errors.InsufficientPrivilege
    assert {what: error for what, error in errors.items() if not isinstance(error, refusal)} == {}


@pytest.mark.parametrize("group", GROUPS)
def test_a_role_is_allowed_what_it_may_do(connections: dict[str, Connection[Any]], group: str) -> None:
    """Runs the same statements as a role that may: the refusals are about privileges, not about mistakes in the SQL."""
    errors = {what: error_of(connections[group], text) for what, text in ALLOWED[group].items()}
    assert {what: error for what, error in errors.items() if error} == {}

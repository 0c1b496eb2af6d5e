"""On a caller's connection of asyncpg, SQLAlchemy or Django, jobs are part of the caller's transaction."""

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import django
import django.conf
import django.core.cache
import django.db
import pytest
import sqlalchemy
from psycopg import Connection
from sqlalchemy.pool import StaticPool

from tests.conftest import Connect
from tests.support.apps import count_pending
from tests.support.callers import Caller, set_up_django
from treadle import (
    InvalidArgument,
    JobQueue,
    LeaseLost,
    NotAllowed,
    Once,
    Priority,
    Retries,
    SchemaError,
    Status,
    Treadle,
)
from treadle.db.borrowed import DjangoConnection, SqlalchemyConnection, borrow, numbered
from treadle.db.queries import enqueueing
from treadle.db.query import Query, Rows
from treadle.words.unique import Enqueued

ODD = {"text": 'it\'s 100% \\ "quoted" $1 %(name)s :name ☃', "list": [None, 1.5, True]}


IN_A_TRANSACTION = [
    "connection on psycopg",
    "connection on psycopg2",
    "session on psycopg",
    "session on psycopg2",
    "scoped session on psycopg",
    "async connection on psycopg",
    "async connection on asyncpg",
    "async session on psycopg",
    "async session on asyncpg",
    "async scoped session on asyncpg",
    "asyncpg connection",
    "asyncpg connection of a pool",
    "django connection",
]


COMMITTING_EACH = [
    "autocommit connection on psycopg",
    "autocommit connection on psycopg2",
    "async autocommit connection on psycopg",
    "async autocommit connection on asyncpg",
    "asyncpg connection",
    "django connection",
]


in_a_transaction = pytest.mark.parametrize("kind", IN_A_TRANSACTION)


committing_each = pytest.mark.parametrize("kind", COMMITTING_EACH)


@pytest.fixture
def chunks_of_ten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("treadle.db.queries.enqueueing.CHUNK", 10)


@pytest.fixture
def refuse_payload_17(connection: Connection[Any]) -> Iterator[None]:
    """A trigger that refuses a job of the second chunk."""
    connection.execute(
        "create function reject() returns trigger language plpgsql as $$ begin"
        " if new.data = '17' then raise 'no seventeen'; end if; return new; end $$"
    )
    connection.execute("create trigger reject before insert on jobs for each row execute function reject()")
    yield
    connection.execute("drop trigger reject on jobs; drop function reject")


@in_a_transaction
def test_a_job_commits_and_rolls_back_with_the_callers_rows(
    app: Treadle, queue: JobQueue, count_orders: Callable[[], int], caller: Caller
) -> None:
    @app.job
    def ship(order_id: int) -> None: ...

    mine = ship.using(connection=caller.connection)
    caller.begin()
    caller.execute("insert into public.orders values (1)")
    caller.call(mine, "enqueue", order_id=1)
    caller.end("rollback")
    assert (count_orders(), count_pending(queue)) == (0, 0)

    caller.begin()
    caller.execute("insert into public.orders values (2)")
    handle = caller.call(mine, "enqueue", order_id=2)
    assert (count_orders(), count_pending(queue)) == (0, 0)
    caller.end("commit")
    assert (count_orders(), count_pending(queue)) == (1, 1)
    assert type(handle.id) is UUID
    assert handle.job().data == {"order_id": 2}


@in_a_transaction
def test_payload_and_options_are_stored(queue: JobQueue, caller: Caller) -> None:
    mine = JobQueue(caller.connection)
    later = datetime(2099, 1, 1, 12, tzinfo=UTC)
    caller.begin()
    at = caller.call(mine, "enqueue", "a", ODD, run_at=later, key="k'1%", priority=Priority.EXPLICIT, queue="mail")
    delayed = caller.call(mine, "enqueue", "a", delay=timedelta(days=3), retry=Retries(6))
    unique = [caller.call(mine, "enqueue", "b", n, unique=Once(key="u"), delay="1h", key="b") for n in (1, 2)]
    keyed = caller.call(mine, "enqueue_many", "a", [1, 2], keys=["k", None])
    caller.end("commit")
    job = queue.get(at)
    assert (job.data, job.run_at, job.key, job.priority, job.queue) == (ODD, later, "k'1%", 150, "mail")
    job = queue.get(delayed)
    assert (job.run_at - job.created_at, job.max_attempts, job.key) == (timedelta(days=3), 7, None)
    assert unique == [queue.list(job_type="b").jobs[0].id] * 2
    assert [(queue.get(each).data, queue.get(each).key) for each in keyed] == [(1, "k"), (2, None)]


@in_a_transaction
def test_errors_are_those_of_our_own_connections(caller: Caller) -> None:
    caller.begin()
    with pytest.raises(SchemaError, match="there is no schema elsewhere in this database; run: treadle migrate"):
        caller.call(JobQueue(caller.connection, schema="elsewhere"), "enqueue", "a")
    caller.end("rollback")
    caller.begin()
    caller.execute("set local role pg_read_all_stats")
    with pytest.raises(NotAllowed, match=r"may not do this in schema treadle \(.*permission denied"):
        caller.call(JobQueue(caller.connection), "enqueue", "a")
    caller.end("rollback")


@in_a_transaction
@pytest.mark.usefixtures("chunks_of_ten", "refuse_payload_17")
def test_enqueue_many_is_atomic_in_the_callers_transaction(
    queue: JobQueue, count_orders: Callable[[], int], caller: Caller
) -> None:
    mine = JobQueue(caller.connection)
    caller.begin()
    caller.execute("insert into public.orders values (1)")
    with pytest.raises(Exception, match="no seventeen"):
        caller.call(mine, "enqueue_many", "a", range(25))
    caller.end("rollback")
    assert (count_orders(), count_pending(queue)) == (0, 0)

    caller.begin()
    ids = caller.call(mine, "enqueue_many", "a", range(100, 125))  # this is the first statement of the transaction
    caller.execute("insert into public.orders values (1)")
    assert (count_orders(), count_pending(queue)) == (0, 0)
    caller.end("commit")
    assert count_orders() == 1
    assert [queue.get(each).data for each in ids] == list(range(100, 125))


@committing_each
@pytest.mark.usefixtures("chunks_of_ten", "refuse_payload_17")
def test_enqueue_many_is_atomic_where_each_statement_commits(queue: JobQueue, caller: Caller) -> None:
    mine = JobQueue(caller.connection)
    with pytest.raises(Exception, match="no seventeen"):
        caller.call(mine, "enqueue_many", "a", range(25))
    assert count_pending(queue) == 0
    caller.call(mine, "enqueue_many", "a", range(100, 125))
    assert count_pending(queue) == 25


@committing_each
@pytest.mark.usefixtures("chunks_of_ten")
def test_a_transaction_begun_with_sql_is_left_to_the_caller(queue: JobQueue, caller: Caller) -> None:
    caller.execute("begin")
    caller.call(JobQueue(caller.connection), "enqueue_many", "a", range(25))
    assert count_pending(queue) == 0
    caller.execute("rollback")
    assert count_pending(queue) == 0


@pytest.mark.parametrize("kind", [kind for kind in COMMITTING_EACH if not kind.startswith("async")])
def test_a_keyboard_interrupt_leaves_no_transaction_open(queue: JobQueue, caller: Caller) -> None:
    mine = borrow(caller.connection, "treadle")
    assert isinstance(mine, SqlalchemyConnection | DjangoConnection)

    def interrupt(rows: Rows) -> list[Enqueued]:
        raise KeyboardInterrupt

    whole = enqueueing.enqueue("a", 1, None)
    with pytest.raises(KeyboardInterrupt):
        mine.run_together([whole, Query(whole.text, whole.params, interrupt)])
    assert count_pending(queue) == 0
    JobQueue(caller.connection).enqueue("a")
    assert count_pending(queue) == 1


@pytest.mark.parametrize("kind", [kind for kind in COMMITTING_EACH if kind != "asyncpg connection"])
@pytest.mark.usefixtures("chunks_of_ten")
def test_a_broken_connection_raises_its_first_error(
    queue: JobQueue, connection: Connection[Any], caller: Caller
) -> None:
    """The error is not that of the failed rollback. (asyncpg's own transaction raises that one.)"""
    connection.execute(
        "create function reject() returns trigger language plpgsql as $$ begin"
        " if new.data = '17' then perform pg_terminate_backend(pg_backend_pid()); end if; return new; end $$"
    )
    connection.execute("create trigger reject before insert on jobs for each row execute function reject()")
    try:
        with pytest.raises(Exception, match=r"terminating connection|server closed the connection"):
            caller.call(JobQueue(caller.connection), "enqueue_many", "a", range(25))
    finally:
        connection.execute("drop trigger reject on jobs; drop function reject")
    assert count_pending(queue) == 0


@committing_each
def test_every_method_works_as_with_psycopg(queue: JobQueue, caller: Caller) -> None:
    mine = JobQueue(caller.connection, "caller")

    def call(method: str, *args: Any, **kwargs: Any) -> Any:
        return caller.call(mine, method, *args, **kwargs)

    ids = call("enqueue_many", "a", [ODD, *range(1, 9)])
    jobs = call("claim", ["a"], 9, queues=["default"])
    assert jobs == [queue.get(each) for each in ids]
    assert all(type(job.id) is UUID and job.claimed_at.tzinfo for job in jobs)
    done, failed, released, snoozed, cancelled, *rest = jobs
    call("heartbeat")
    call("start", done)
    call("progress", done, 40, stage="half")
    assert (queue.get(done).progress, queue.get(done).current_stage) == (40, "half")
    call("complete", done, {"ok": True})
    with pytest.raises(LeaseLost):
        call("complete", done)
    call("fail", failed, ValueError("why"), delay="1h")
    call("release", released)
    call("snooze", snoozed, "10m")
    call("cancel", cancelled.id, "not wanted")
    queue.release(rest[0])
    assert call("complete_many", rest, [1, 2, None, 4]) == [rest[0]]
    assert call("get", done) == queue.get(done)
    assert queue.get(done).result == {"ok": True}
    assert call("errors", failed) == queue.errors(failed)
    assert call("counts") == queue.counts()
    assert queue.counts() == {
        Status.PENDING: 4,
        Status.CLAIMED: 0,
        Status.RUNNING: 0,
        Status.COMPLETED: 4,
        Status.FAILED: 0,
        Status.CANCELLED: 1,
    }
    call("retry", cancelled)
    page = call("list", job_type="a", queue="default", limit=5)
    assert page == queue.list(limit=5)
    assert call("list", status="pending", after=page.next) == queue.list(status="pending", after=page.next)
    assert call("list", worker_id="x", key="y").jobs == []
    call("claim", ["a"], 1)
    assert call("recover_stale_jobs", 0) == 1
    assert call("prune", older_than=0, batch_size=2) == 4
    assert call("prune", Status.FAILED, older_than=0) == 0


@pytest.mark.parametrize("kind", ["connection on psycopg2", "session on psycopg"])
def test_an_async_method_on_a_sync_connection_names_the_sync_one(caller: Caller) -> None:
    with pytest.raises(InvalidArgument, match="a sync connection; use the sync methods"):
        asyncio.run(JobQueue(caller.connection).aenqueue("a"))
    with pytest.raises(InvalidArgument, match="a sync connection; use the sync methods"):
        asyncio.run(JobQueue(caller.connection).aenqueue_many("a", [1]))


@pytest.mark.parametrize("kind", ["async connection on asyncpg", "async session on psycopg", "asyncpg connection"])
def test_a_sync_method_on_an_async_connection_names_the_async_one(caller: Caller) -> None:
    with pytest.raises(InvalidArgument, match="an async connection; use the async methods"):
        JobQueue(caller.connection).enqueue("a")
    with pytest.raises(InvalidArgument, match="an async connection; use the async methods"):
        JobQueue(caller.connection).enqueue_many("a", [1])


def test_an_unsupported_connection_is_refused(url: str, exit_stack: ExitStack) -> None:
    caller = Caller(url, "connection on psycopg", exit_stack)
    accepted = "or a connection of asyncpg, SQLAlchemy or Django, got "
    with pytest.raises(InvalidArgument, match=f"{accepted}Engine"):
        JobQueue(caller.engine())
    with pytest.raises(InvalidArgument, match=f"{accepted}object"):
        JobQueue(object())  # type: ignore[arg-type]
    memory = sqlalchemy.create_engine("sqlite://", poolclass=StaticPool)
    exit_stack.callback(memory.dispose)
    with memory.connect() as connection:
        with pytest.raises(InvalidArgument, match=r"psycopg, psycopg2 or asyncpg, got sqlite\+pysqlite"):
            JobQueue(connection).enqueue("a")
    set_up_django(caller.parts)
    with pytest.raises(InvalidArgument, match="must be to PostgreSQL, got sqlite"):
        JobQueue(django.db.connections["file"])
    with pytest.raises(InvalidArgument, match="must be to PostgreSQL, got ConnectionProxy"):
        JobQueue(django.core.cache.cache)  # Django returns it in the same wrapper


@pytest.mark.parametrize("kind", ["connection on psycopg"])
@pytest.mark.parametrize(("part", "value"), [("name", "cockroachdb"), ("driver", "pg8000")])
def test_another_dialect_or_driver_is_refused(
    queue: JobQueue, caller: Caller, monkeypatch: pytest.MonkeyPatch, part: str, value: str
) -> None:
    monkeypatch.setattr(caller.connection.dialect, part, value)
    with pytest.raises(InvalidArgument, match=f"psycopg, psycopg2 or asyncpg, got .*{value}"):
        JobQueue(caller.connection).enqueue("a")
    assert count_pending(queue) == 0


@pytest.mark.parametrize("kind", ["connection on psycopg2"])
@pytest.mark.usefixtures("chunks_of_ten")
def test_a_connection_that_streams_its_results_works(queue: JobQueue, caller: Caller) -> None:
    connection = caller.connection.execution_options(stream_results=True, isolation_level="AUTOCOMMIT")
    JobQueue(connection).enqueue_many("a", range(25))
    assert count_pending(queue) == 25


def test_placeholders_are_numbered_for_asyncpg() -> None:
    text = b"select %(b)s, %(a)s::varchar[], 5 %% 2, %(b)s"
    assert numbered(text, {"a": ["x"], "b": 7, "c": 0}) == ("select $1, $2::varchar[], 5 % 2, $1", (7, ["x"]))


def test_none_of_the_libraries_is_imported_by_treadle(connect: Connect) -> None:
    code = (
        "import sys, treadle; treadle.JobQueue();"
        "print({'asyncpg', 'sqlalchemy', 'django', 'psycopg2'} & set(sys.modules))"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd="/")
    assert shown.stdout == "set()\n"
    assert borrow(connect(), "treadle") is None
    assert borrow(uuid4(), "treadle") is None

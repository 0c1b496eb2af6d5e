"""The queue runs its statements on its own pool, or on the caller's connection inside the caller's transaction."""

import asyncio
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from psycopg import Connection
from psycopg.rows import dict_row
from psycopg_pool import ConnectionPool

from tests.conftest import Connect
from tests.support.workers import until
from treadle import (
    DatabaseUnreachable,
    InvalidArgument,
    JobNotFound,
    JobQueue,
    JobRow,
    SchemaError,
    Status,
    migrate,
)


def test_jobs_are_enqueued_and_claimed_inside_the_callers_transaction(queue: JobQueue, connect: Connect) -> None:
    connection = connect(autocommit=False)
    mine = JobQueue(connection, "caller")
    job_id = mine.enqueue("a")
    mine.enqueue_many("a", range(7_000))
    with pytest.raises(JobNotFound):
        queue.get(job_id)
    connection.rollback()
    assert queue.counts()[Status.PENDING] == 0
    job_id = mine.enqueue("a")
    connection.commit()
    (job,) = mine.claim(["a"])
    mine.complete(job)
    connection.rollback()
    assert queue.get(job_id).status == Status.PENDING


def test_a_claim_ticks_but_not_in_a_transaction_that_has_written(queue: JobQueue, connect: Connect) -> None:
    connection = connect(autocommit=False)
    JobQueue(connection).enqueue("b")
    JobQueue(connection).claim(["a"])
    assert connection.execute("select last_value from tick_clock").fetchone() == (0,)
    queue.claim(["a"])
    assert connection.execute("select last_value > 0 from tick_clock").fetchone() == (True,)


def test_a_refused_payload_leaves_the_callers_transaction_usable(connect: Connect) -> None:
    connection = connect(autocommit=False)
    queue = JobQueue(connection)
    kept = queue.enqueue("a")
    with pytest.raises(ValueError, match="NUL"):
        queue.enqueue("a", {"text": "a\x00b"})
    connection.commit()
    assert queue.get(kept).status == Status.PENDING


def test_a_lost_lease_leaves_the_callers_transaction_usable(queue: JobQueue, connect: Connect) -> None:
    queue.enqueue("a")
    (job,) = queue.claim(["a"])
    queue.release(job)
    connection = connect(autocommit=False)
    with pytest.raises(Exception, match="no longer claimed"):
        JobQueue(connection).complete(job)
    JobQueue(connection).enqueue("b")
    connection.commit()
    assert queue.counts()[Status.PENDING] == 2


def test_a_callers_connection_may_have_its_own_row_factory(url: str) -> None:
    with psycopg.connect(url, row_factory=dict_row) as connection:
        queue = JobQueue(connection)
        queue.enqueue("a", [1])
        assert [job.data for job in queue.claim(["a"])] == [[1]]


def test_enqueue_many_is_atomic_on_a_callers_autocommit_connection(queue: JobQueue, connect: Connect) -> None:
    connection = connect(autocommit=True)
    connection.execute(
        "create function reject() returns trigger language plpgsql as $$ begin"
        " if new.data = '9999' then raise 'no'; end if; return new; end $$"
    )
    connection.execute("create trigger reject before insert on jobs for each row execute function reject()")
    try:
        with pytest.raises(psycopg.errors.RaiseException):
            JobQueue(connection).enqueue_many("a", range(10_000))
        assert queue.counts()[Status.PENDING] == 0
    finally:
        connection.execute("drop trigger reject on jobs; drop function reject")


def test_a_queue_works_on_a_callers_pool_and_async_connection(url: str) -> None:
    with ConnectionPool(url, min_size=1, open=True) as pool:
        JobQueue(pool).enqueue("a")

    async def claim() -> list[JobRow]:
        async with await psycopg.AsyncConnection.connect(url) as connection:
            return await JobQueue(connection).aclaim(["a"])

    assert len(asyncio.run(claim())) == 1


def test_sync_methods_on_an_async_connection_name_the_async_ones(url: str, connection: Connection[Any]) -> None:
    async def main() -> None:
        async with await psycopg.AsyncConnection.connect(url) as aconnection:
            with pytest.raises(InvalidArgument, match="use the async methods, such as aclaim"):
                JobQueue(aconnection).counts()
        with pytest.raises(InvalidArgument, match="use the sync methods, such as claim"):
            await JobQueue(connection).acounts()

    asyncio.run(main())


def test_an_unreachable_server_is_named_without_the_password() -> None:
    with pytest.raises(DatabaseUnreachable) as refused:
        JobQueue("postgresql://ada:secret@127.0.0.1:1/app").counts()
    assert "127.0.0.1:1/app" in str(refused.value)
    assert "secret" not in str(refused.value)


def test_the_error_for_a_missing_schema_names_the_command(empty_url: str) -> None:
    with (
        psycopg.connect(empty_url) as connection,
        pytest.raises(SchemaError, match="there is no schema treadle in this"),
    ):
        JobQueue(connection).enqueue("work")
    with pytest.raises(SchemaError, match="there is no schema treadle in this database; run: treadle migrate"):
        JobQueue(empty_url).counts()


def test_an_invalid_database_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="or Django, got int"):
        JobQueue(7)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="is invalid; expected postgresql://"):
        JobQueue("postgresql://[half").counts()


def test_all_jobs_are_completed_on_a_server_whose_default_is_repeatable_read(empty_url: str) -> None:
    """Our own connections use READ COMMITTED nevertheless, because concurrent claimers need it."""
    with psycopg.connect(empty_url, autocommit=True) as connection:
        name = connection.info.dbname
        connection.execute(f"alter database {name} set default_transaction_isolation = 'repeatable read'")
    with ThreadPoolExecutor(4) as pool:
        assert sum(map(bool, pool.map(migrate, [empty_url] * 4))) == 1
    with JobQueue(empty_url) as queue:
        queue.enqueue_many("a", range(2000), keys=[f"k{n % 100}" for n in range(2000)])

        def work(_: int) -> int:
            done = 0
            while jobs := queue.claim(["a"], 20):
                assert queue.complete_many(jobs) == []
                done += len(jobs)
            return done

        with ThreadPoolExecutor(4) as pool:
            assert sum(pool.map(work, range(4))) > 1000

        # Jobs that were just unblocked may be below a floor for a moment (see tick.sql): one empty claim is not enough.
        def all_done() -> bool:
            queue.complete_many(queue.claim(["a"], 100))
            return queue.counts()[Status.COMPLETED] == 2000

        until(all_done)


def test_an_unclosed_pool_is_closed_at_exit(url: str) -> None:
    """Otherwise the interpreter would wait for the threads of the pool, since Python 3.13 for seconds."""
    code = """
import atexit
pools = []
atexit.register(lambda: print(pools[0].closed))  # registered first, so it runs last
import sys
from treadle import JobQueue
queue = JobQueue(sys.argv[1])
queue.counts()
pools.append(queue._database.origin._pool)
"""
    done = subprocess.run([sys.executable, "-c", code, url], check=False, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("True\n", "")

"""On a connection of Django: atomic blocks, threads, time zones and drivers."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import django.db
import django.db.transaction
import pytest
from asgiref.sync import async_to_sync

from tests.support.apps import count_pending
from tests.support.callers import Caller
from treadle import JobQueue, Status


@pytest.mark.parametrize("kind", ["django connection"])
def test_jobs_are_part_of_an_atomic_block_of_django(queue: JobQueue, caller: Caller) -> None:
    mine = JobQueue(caller.connection)

    def enqueue_and_fail() -> None:
        with django.db.transaction.atomic():
            mine.enqueue("a")
            raise ZeroDivisionError

    with django.db.transaction.atomic():
        kept = mine.enqueue("a")
        with pytest.raises(ZeroDivisionError):
            enqueue_and_fail()
        assert count_pending(queue) == 0
    with pytest.raises(ZeroDivisionError):
        enqueue_and_fail()
    assert [job.id for job in queue.list().jobs] == [kept]


@pytest.mark.parametrize("kind", ["django connection"])
def test_each_thread_has_its_own_connection_of_django(queue: JobQueue, caller: Caller) -> None:
    mine = JobQueue(caller.connection)

    def enqueue() -> None:
        try:
            mine.enqueue("a")
        finally:
            django.db.connection.close()

    caller.begin()
    mine.enqueue("a")
    with ThreadPoolExecutor(1) as thread:
        thread.submit(enqueue).result(30)
    assert count_pending(queue) == 1, "the connection of the thread has committed, this one has not"


@pytest.mark.parametrize("kind", ["django connection"])
def test_times_have_a_zone_if_django_uses_naive_times(queue: JobQueue, caller: Caller) -> None:
    job_id = queue.enqueue("a")
    naive = caller.connection.copy()
    naive.__dict__["timezone"] = None
    naive.__dict__["timezone_name"] = "America/Chicago"
    try:
        assert JobQueue(naive).get(job_id) == queue.get(job_id)
        with naive.cursor() as cursor:
            cursor.execute("select now()")
            assert cursor.fetchone()[0].tzinfo is None
    finally:
        naive.close()


def test_a_connection_of_django_with_psycopg2_works(url: str, queue: JobQueue) -> None:
    """Django prefers psycopg 3 if it can be imported, so here it must not be importable at first."""
    code = """
import sys
sys.modules["psycopg"] = None
from django.conf import settings
from django.db import connection, transaction
from psycopg2.extensions import parse_dsn
parts = parse_dsn(sys.argv[1])
default = {"NAME": parts["dbname"], "USER": parts["user"], "HOST": parts["host"], "PORT": parts.get("port", ""),
    "PASSWORD": parts.get("password", "")}
settings.configure(USE_TZ=False, DATABASES={"default": {"ENGINE": "django.db.backends.postgresql", **default}})
import django
django.setup()
connection.ensure_connection()
del sys.modules["psycopg"]
from treadle import JobQueue
import treadle.db.queries.enqueueing
treadle.db.queries.enqueueing.CHUNK = 10
mine = JobQueue(connection)
with transaction.atomic():
    mine.enqueue_many("a", range(25), delay="1h")
    transaction.set_rollback(True)
ids = mine.enqueue_many("b", range(25), keys=[None, *map(str, range(24))])
(job,) = mine.claim(["b"], 1)
mine.complete(job)
assert mine.get(job.id).id == job.id == ids[0]
print(type(connection.connection).__module__, type(job.id), job.created_at.tzinfo is not None)
connection.close()
"""
    done = subprocess.run([sys.executable, "-c", code, url], check=False, capture_output=True, text=True, timeout=60)
    assert (done.stderr, done.stdout) == ("", "psycopg2.extensions <class 'uuid.UUID'> True\n")
    assert (count_pending(queue), queue.counts()[Status.COMPLETED]) == (24, 1)


@pytest.mark.parametrize("kind", ["django connection"])
def test_async_methods_use_the_connection_of_the_async_orm(queue: JobQueue, caller: Caller) -> None:
    """Under async_to_sync, as in a test or a view, that is the connection of the thread that called it."""
    mine = JobQueue(caller.connection)

    async def enqueue_and_fail() -> None:
        job = await mine.aenqueue("a")
        assert (await mine.aget(job)).status == Status.PENDING
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), django.db.transaction.atomic():
        async_to_sync(enqueue_and_fail)()
    assert count_pending(queue) == 0

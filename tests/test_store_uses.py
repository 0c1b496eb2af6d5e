"""What is stored is kept while a job needs it, and removed when none does."""

import asyncio
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import asyncpg
import psycopg
import pytest
import sqlalchemy
from psycopg import Connection
from psycopg.conninfo import conninfo_to_dict
from pydantic import BaseModel, TypeAdapter
from sqlalchemy.pool import NullPool

from tests import store_handlers
from tests.apps import run, work
from tests.conftest import Connect
from tests.stores import CONTENT, count, sweep
from tests.waiting import until_blocked
from treadle import InvalidPayload, Job, JobQueue, Stored, StoredNotFound, Treadle, migrate
from treadle.app.function import JobFunction
from treadle.db import jobs
from treadle.db.database import Database
from treadle.db.stored import PART_SIZE

Resize = JobFunction[..., None, ..., None]


class Album(BaseModel):
    cover: Stored
    pictures: list[Stored] = []


@pytest.fixture
def resize(app: Treadle) -> Resize:
    @app.job
    def resize(picture: Stored, others: list[Stored] = [], album: Album | None = None, extra: Any = None) -> None: ...  # noqa: B006

    return resize


def uses(connection: Connection[Any]) -> set[tuple[Any, Any]]:
    return set(connection.execute("select stored_id, job_id from stored_uses").fetchall())


def unknown() -> Stored:
    return Stored(uuid4(), 3, "0" * 64)


# Counting


def test_an_enqueued_job_uses_what_its_arguments_refer_to(
    app: Treadle, resize: Resize, url: str, connection: Connection[Any]
) -> None:
    five = [app.store(b"%d" % n) for n in range(5)]
    album = Album(cover=five[1], pictures=[five[0], five[2]])
    handle = resize.enqueue(five[0], others=[five[0], five[3]], album=album, extra={"deep": [five[4]]})
    assert uses(connection) == {(each.id, handle.id) for each in five}
    assert sweep(url) == 0
    assert [app.read(each) for each in five] == [b"0", b"1", b"2", b"3", b"4"]


def test_an_async_enqueue_counts_too(app: Treadle, resize: Resize, connection: Connection[Any]) -> None:
    async def main() -> tuple[Any, Any]:
        stored = await app.astore(b"1")
        return stored.id, (await resize.aenqueue(stored)).id

    assert uses(connection) == set() != {run(app, main())} == uses(connection)


def test_many_jobs_use_each_their_own(
    app: Treadle, resize: Resize, connection: Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("treadle.db.jobs.ENQUEUE_CHUNK", 10)

    @app.job
    def maybe(picture: Stored | None = None) -> None: ...

    stored = [app.store(b"%d" % n) for n in range(3)]
    calls = [{"picture": stored[n % 3]} if n in (0, 9, 10, 24) else {} for n in range(25)]
    ids = [handle.id for handle in maybe.enqueue_many(calls)]
    assert uses(connection) == {(stored[n % 3].id, ids[n]) for n in (0, 9, 10, 24)}
    # In the order of the calls, whether they refer to something or not.
    data = [connection.execute("select data from jobs where id = %s", [each]).fetchone() for each in ids]
    assert [bool(row and row[0]) for row in data] == [n in (0, 9, 10, 24) for n in range(25)]


def test_a_job_that_was_there_already_uses_only_its_own(
    app: Treadle, resize: Resize, url: str, connection: Connection[Any]
) -> None:
    first, second = app.store(b"1"), app.store(b"2")
    one = resize.using(unique="u").enqueue(first)
    two = resize.using(unique="u").enqueue(second)
    assert one.id == two.id
    assert uses(connection) == {(first.id, one.id)}
    assert sweep(url) == 1


def test_an_enqueue_without_references_sends_what_it_always_did(
    app: Treadle, connection: Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[Any] = []
    run_together = Database.run_together

    def spy(self: Database, queries: Any) -> Any:
        sent.extend(queries)
        return run_together(self, queries)

    monkeypatch.setattr(Database, "run_together", spy)

    @app.job
    def maybe(n: int, picture: Stored | None = None) -> None: ...

    maybe.enqueue(1)
    maybe.enqueue_many({"n": n} for n in range(3))
    one = jobs.enqueue("treadle", "maybe", {"n": 1}, None)
    (many,) = jobs.enqueue_many("treadle", "maybe", [{"n": 0}, {"n": 1}, {"n": 2}], None)
    assert [(each.text, each.params) for each in sent] == [(each.text, each.params) for each in (one, many)]


def test_what_is_not_there_is_told_and_nothing_is_enqueued(
    app: Treadle, resize: Resize, queue: JobQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("treadle.db.jobs.ENQUEUE_CHUNK", 2)
    missing, known = unknown(), app.store(b"1")
    enqueues: list[Callable[[], Any]] = [
        lambda: resize.enqueue(missing),
        lambda: resize.using(unique="u").enqueue(missing),
        lambda: resize.enqueue_many([{"picture": known}] * 4 + [{"picture": missing}]),
        lambda: run(app, resize.aenqueue(missing)),
    ]
    for enqueue in enqueues:
        with pytest.raises(StoredNotFound, match=f"nothing stored as {missing.id}"):
            enqueue()
    assert queue.list().jobs == []


def test_a_payload_that_is_refused_uses_nothing(app: Treadle, resize: Resize, connection: Connection[Any]) -> None:
    stored = app.store(b"1")
    with pytest.raises(InvalidPayload):
        resize.enqueue(stored, extra=float("nan"))
    with pytest.raises(InvalidPayload):
        resize.enqueue_many([{"picture": stored}, {"picture": 7}])
    assert uses(connection) == set()


# On connections of the caller's


@contextmanager
def psycopg_connection(url: str) -> Iterator[tuple[Any, Callable[[], Any]]]:
    with psycopg.connect(url) as connection:
        yield connection, connection.rollback


@contextmanager
def sqlalchemy_connection(url: str, driver: str) -> Iterator[tuple[Any, Callable[[], Any]]]:
    parts = conninfo_to_dict(url)
    engine = sqlalchemy.create_engine(
        f"postgresql+{driver}://", poolclass=NullPool, connect_args={name: str(value) for name, value in parts.items()}
    )
    with engine.connect() as connection:
        yield connection, connection.rollback
    engine.dispose()


LENDERS: dict[str, Callable[[str], Any]] = {
    "psycopg": psycopg_connection,
    "SQLAlchemy on psycopg": lambda url: sqlalchemy_connection(url, "psycopg"),
    "SQLAlchemy on psycopg2": lambda url: sqlalchemy_connection(url, "psycopg2"),
}


@pytest.mark.parametrize("kind", LENDERS)
def test_a_use_commits_and_rolls_back_with_the_callers_transaction(
    app: Treadle, resize: Resize, url: str, connection: Connection[Any], kind: str
) -> None:
    one, two, three = (app.store(b"%d" % n) for n in range(3))
    with LENDERS[kind](url) as (mine, rollback):
        lent = resize.using(connection=mine)
        lent.enqueue(one)
        lent.enqueue_many([{"picture": two}] * 2)
        lent.using(unique="u").enqueue(three)
        assert sweep(url) == 0  # it may still commit
        rollback()
        assert uses(connection) == set()
        handle = lent.enqueue(one)
        mine.commit()
    assert uses(connection) == {(one.id, handle.id)}
    assert sweep(url) == 2
    assert app.read(one) == b"0"


@pytest.mark.parametrize("kind", LENDERS)
def test_a_reference_that_is_not_there_leaves_the_callers_transaction_usable(
    app: Treadle, resize: Resize, url: str, queue: JobQueue, kind: str
) -> None:
    with LENDERS[kind](url) as (mine, _):
        lent = resize.using(connection=mine)
        with pytest.raises(StoredNotFound):
            lent.enqueue(unknown())
        with pytest.raises(StoredNotFound):
            lent.enqueue_many([{"picture": app.store(b"1")}, {"picture": unknown()}])
        kept = lent.enqueue(app.store(b"2"))
        mine.commit()
    assert [job.id for job in queue.list().jobs] == [kept.id]


def test_on_a_connection_of_asyncpg(app: Treadle, resize: Resize, url: str, connection: Connection[Any]) -> None:
    parts = conninfo_to_dict(url)
    stored = app.store(CONTENT)

    async def main() -> tuple[Any, bytes]:
        mine = await asyncpg.connect(
            host=parts["host"], user=parts["user"], database=parts["dbname"], port=parts.get("port", 5432)
        )
        try:
            lent = resize.using(connection=mine)
            transaction = mine.transaction()
            await transaction.start()
            await lent.aenqueue(stored)
            await transaction.rollback()
            with pytest.raises(StoredNotFound):
                await lent.aenqueue(unknown())
            kept = await lent.aenqueue(stored)
            (many,) = await lent.aenqueue_many([{"picture": stored}])
            unique = await lent.using(unique="u").aenqueue(stored)
            on_it = Treadle(mine)
            return {kept.id, many.id, unique.id}, await on_it.aread(await on_it.astore(CONTENT))
        finally:
            await mine.close()

    ids, content = run(app, main())
    assert uses(connection) == {(stored.id, each) for each in ids}
    assert content == CONTENT


def test_bytes_go_through_the_driver_of_the_caller(url: str) -> None:
    for driver in ("psycopg", "psycopg2"):
        with sqlalchemy_connection(url, driver) as (mine, _):
            app = Treadle(mine)
            assert app.read(app.store(CONTENT)) == CONTENT


def test_from_sql_a_job_that_is_there_can_use_what_is_there(
    app: Treadle, resize: Resize, connection: Connection[Any]
) -> None:
    stored, other, missing = app.store(b"1"), app.store(b"2"), unknown()
    job = resize.enqueue(other)
    answer = connection.execute(
        "select use_stored(%s, %s)",
        [[job.id, job.id, uuid4(), job.id], [stored.id, stored.id, stored.id, missing.id]],
    ).fetchall()
    assert answer == [(missing.id,)]
    assert uses(connection) == {(stored.id, job.id), (other.id, job.id)}


# The end of a use


def test_a_use_ends_with_its_job(
    app: Treadle, resize: Resize, queue: JobQueue, url: str, connection: Connection[Any]
) -> None:
    stored = app.store(CONTENT)
    first, second = resize.enqueue(stored), resize.enqueue(stored)
    for job in queue.claim(["resize"]):
        queue.complete(job)
    assert sweep(url) == 0  # they are kept, and somebody may run them again
    connection.execute("delete from jobs where id = %s", [first.id])
    assert sweep(url) == 0
    assert uses(connection) == {(stored.id, second.id)}
    assert queue.prune("completed", 0) == 1
    assert uses(connection) == set()
    assert sweep(url) == 1
    assert (count(connection, "stored"), count(connection, "stored_parts")) == (0, 0)
    with pytest.raises(StoredNotFound):
        app.read(stored)


def test_pruning_jobs_without_references_looks_for_uses_once(app: Treadle, resize: Resize, connect: Connect) -> None:
    connection = connect()

    def searched() -> int:
        row = connection.execute(
            "select idx_scan + seq_scan from pg_stat_xact_user_tables where relid = 'stored_uses'::regclass"
        ).fetchone()
        return int(row[0]) if row else 0

    def looks() -> int:
        """How often an index of the uses is searched while 1,000 jobs without any are pruned."""
        connection.execute(
            "insert into jobs (job_type, status) select 'plain', 'completed' from generate_series(1, 1000)"
        )
        with connection.transaction():
            before = searched()
            pruned = connection.execute("select pruned from prune_jobs('completed', '0', 1000)").fetchone()
            assert pruned == (1000,)
            return searched() - before

    assert looks() == 1
    for _ in range(20):
        resize.enqueue(app.store(b"1"))
    assert looks() == 1


# Sweeping


def test_the_grace_is_for_what_nobody_uses_yet(app: Treadle, url: str, connection: Connection[Any]) -> None:
    app.store(CONTENT)
    assert sweep(url, grace=3600) == 0
    connection.execute("update stored set written_at = written_at - interval '59 minutes'")
    assert sweep(url, grace=3600) == 0
    connection.execute("update stored set written_at = written_at - interval '1 minute'")
    assert sweep(url, grace=3600) == 1


def test_a_sweep_goes_on_until_all_is_gone(
    app: Treadle, url: str, connection: Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("treadle.worker.upkeep.SWEEP_BATCH", 2)
    for n in range(5):
        app.store(b"%d" % n)
    assert sweep(url) == 5
    app.store(bytes(10 * PART_SIZE))
    # Large ones in steps, so that none takes long; whoever is killed in between leaves the rest to the next.
    steps = connection.execute("select swept, more from sweep_stored('0', p_parts => 4)").fetchall()
    assert (steps, count(connection, "stored_parts")) == ([(0, True)], 6)
    assert sweep(url, grace=3600) == 1
    assert (count(connection, "stored"), count(connection, "stored_parts")) == (0, 0)


def test_two_sweeps_at_once_do_not_wait_for_each_other(app: Treadle, url: str, connect: Connect) -> None:
    for _ in range(3):
        app.store(b"1")
    slow = connect(autocommit=False)
    assert slow.execute("select swept from sweep_stored('0', 2)").fetchone() == (2,)
    assert sweep(url) == 1
    slow.commit()
    assert count(connect(), "stored") == 0


def test_a_sweep_needs_to_see_what_is_committed(connect: Connect) -> None:
    connection = connect(autocommit=False)
    connection.execute("set transaction isolation level repeatable read")
    with pytest.raises(psycopg.errors.RaiseException, match="needs a READ COMMITTED transaction"):
        connection.execute("select sweep_stored('0')")


def test_who_enqueues_while_it_is_being_swept_is_told(
    app: Treadle, resize: Resize, queue: JobQueue, connect: Connect
) -> None:
    stored = app.store(CONTENT)
    sweeper = connect(autocommit=False)
    assert sweeper.execute("select swept from sweep_stored('0', p_parts => 1)").fetchone() == (0,)
    with ThreadPoolExecutor(1) as pool:
        enqueue = pool.submit(resize.enqueue, stored)
        until_blocked(connect())
        sweeper.commit()
        with pytest.raises(StoredNotFound):
            enqueue.result()
    assert queue.list().jobs == []


def test_a_sweep_that_is_rolled_back_removed_nothing(app: Treadle, resize: Resize, connect: Connect) -> None:
    stored = app.store(CONTENT)
    sweeper = connect(autocommit=False)
    sweeper.execute("select sweep_stored('0')")
    with ThreadPoolExecutor(1) as pool:
        enqueue = pool.submit(resize.enqueue, stored)
        until_blocked(connect())
        sweeper.rollback()
        enqueue.result()
    assert app.read(stored) == CONTENT


def test_a_use_that_is_committed_between_the_look_and_the_lock_is_seen(
    app: Treadle, resize: Resize, url: str, connect: Connect
) -> None:
    """The sweeper's role has a row policy that waits: its snapshot is taken by then, its locks are not."""
    stored = app.store(CONTENT)
    owner, gate, role = connect(), connect(), f"sweeper_{uuid4().hex[:8]}"
    owner.execute(
        "create function public.wait_at_the_gate() returns boolean language plpgsql as"
        " $$ begin perform pg_advisory_xact_lock_shared(4711); return true; end $$"
    )
    owner.execute(f"create role {role}; grant usage on schema treadle to {role}")
    owner.execute(f"grant all on all tables in schema treadle to {role}")
    owner.execute("alter table stored enable row level security")
    owner.execute("create policy gate on stored using (public.wait_at_the_gate())")
    try:
        sweeper = connect()
        sweeper.execute(f"set role {role}")
        gate.execute("select pg_advisory_lock(4711)")
        with ThreadPoolExecutor(1) as pool:
            swept = pool.submit(lambda: sweeper.execute("select swept, files from sweep_stored('0')").fetchall())
            until_blocked(owner)
            resize.enqueue(stored)
            gate.execute("select pg_advisory_unlock(4711)")
            assert swept.result() == [(0, [])]
    finally:
        gate.close()
        owner.execute("drop policy gate on stored; alter table stored disable row level security")
        owner.execute(f"drop function public.wait_at_the_gate; drop owned by {role}; drop role {role}")
    assert app.read(stored) == CONTENT


def test_enqueues_sweeps_and_prunes_at_once_lose_nothing(
    app: Treadle, resize: Resize, url: str, connect: Connect
) -> None:
    """Whatever was enqueued can be read; nobody deadlocks."""
    stop = time.monotonic() + 2
    shared = [app.store(b"%d" % n) for n in range(4)]
    resize.enqueue(shared[0], others=shared)

    def enqueue(seed: int) -> int:
        done = 0
        while time.monotonic() < stop:
            try:
                mine = app.store(b"%d" % seed)
                resize.enqueue(mine, others=shared if seed % 2 else shared[::-1])
                done += 1
            except StoredNotFound:
                pass  # swept before it was used: there is no grace here
        return done

    def delete() -> None:
        connection = connect()
        while time.monotonic() < stop:
            connection.execute("delete from jobs where id in (select id from jobs order by id offset 10 limit 5)")

    def sweeps() -> None:
        while time.monotonic() < stop:
            sweep(url)

    with ThreadPoolExecutor(8) as pool:
        enqueues = [pool.submit(enqueue, seed) for seed in range(3)]
        others = [pool.submit(delete), pool.submit(delete), pool.submit(sweeps), pool.submit(sweeps)]
        assert sum(each.result() for each in enqueues) > 0
        for other in others:
            other.result()
    assert [app.read(each) for each in shared] == [b"0", b"1", b"2", b"3"]
    connection = connect()
    left = connection.execute("select data -> 'picture' from jobs").fetchall()
    assert len(left) > 1
    assert all(app.read(TypeAdapter(Stored).validate_python(picture)) for (picture,) in left)
    assert connection.execute("select from stored_uses where job_id not in (select id from jobs)").fetchall() == []
    connection.execute("delete from jobs")
    sweep(url)
    assert count(connection, "stored") == 0


# In handlers


@pytest.fixture
def handlers(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("TREADLE_DATABASE_URL", url)
    yield store_handlers
    store_handlers.app.close()


@pytest.mark.parametrize("kind", ["on_the_loop", "on_a_thread"])
def test_a_result_by_reference(handlers: Any, url: str, connection: Connection[Any], kind: str) -> None:
    app = handlers.app
    given = app.store(b"quiet")
    handle = getattr(handlers, kind).enqueue(given)
    (result,) = work(app, handle)
    assert uses(connection) == {(given.id, handle.id), (result.id, handle.id)}
    assert sweep(url) == 0
    assert app.read(result) == b"QUIET"
    connection.execute("delete from jobs")
    assert sweep(url) == 2


def test_a_result_by_reference_from_a_process_of_its_own(
    handlers: Any, url: str, connection: Connection[Any], tmp_path: Path
) -> None:
    app = handlers.app
    handle = handlers.in_a_process.enqueue(app.store(b"quiet"), tmp_path)
    ((result, given),) = work(app, handle)
    assert uses(connection) == {(given.id, handle.id), (result.id, handle.id)}
    assert (app.read(result), result.name) == (b"QUIET", "result")


def test_what_a_handler_stores_is_used_at_once(app: Treadle, url: str, connection: Connection[Any]) -> None:
    seen: list[int] = []

    @app.job
    def keep() -> None:
        app.store(b"kept, though nobody returns it")
        seen.append(sweep(url))

    handle = keep.enqueue()
    work(app, handle)
    assert seen == [0]
    assert {job for _, job in uses(connection)} == {handle.id}


def test_what_a_result_refers_to_is_used_also_if_it_came_from_elsewhere(
    app: Treadle, url: str, connection: Connection[Any]
) -> None:
    stored = app.store(b"elsewhere")
    lost = unknown()

    @app.job
    def pass_on(lose: bool) -> list[Stored]:
        return [lost] if lose else [stored, stored]

    handles = [pass_on.enqueue(lose) for lose in (False, True)]
    assert work(app, *handles) == [[stored, stored], [lost]]  # a result is not refused: the work was done
    assert uses(connection) == {(stored.id, handles[0].id)}
    assert sweep(url) == 0


@pytest.mark.parametrize("twin", ["", "a"])
def test_a_result_that_is_committed_by_the_handler_uses_what_it_refers_to(
    app: Treadle, url: str, connection: Connection[Any], twin: str
) -> None:
    stored = app.store(b"elsewhere")

    @app.job
    def sync_end(job: Job) -> Stored | None:
        with job.transaction():
            job.complete(stored)
        return None

    @app.job
    async def async_end(job: Job) -> Stored | None:
        async with job.atransaction():
            job.complete(stored)
        return None

    handle = (async_end if twin else sync_end).enqueue()
    assert work(app, handle) == [stored]
    assert uses(connection) == {(stored.id, handle.id)}
    assert sweep(url) == 0


def test_what_another_application_stores_in_a_handler_is_not_used_by_a_job_that_is_not_there(
    app: Treadle, empty_url: str
) -> None:
    migrate(empty_url)
    other = Treadle(empty_url)

    @app.job
    def keep() -> Stored:
        return other.store(b"there")

    work(app, keep.enqueue())
    with psycopg.connect(empty_url, options="-c search_path=treadle") as there:
        assert (count(there, "stored"), count(there, "stored_uses")) == (1, 0)
    other.close()


def test_the_worker_sweeps(url: str, connection: Connection[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("treadle.worker.worker.PRUNE_SECONDS", 0.05)
    app = Treadle(url, store_grace=0)

    @app.job
    def nothing() -> None: ...

    app.store(CONTENT)

    async def main() -> None:
        async with app.worker():
            end = time.monotonic() + 20
            while count(connection, "stored") and time.monotonic() < end:
                await asyncio.sleep(0.02)

    run(app, main())
    assert count(connection, "stored") == 0

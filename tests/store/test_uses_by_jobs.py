"""Stored contents are used by the jobs that refer to them, from enqueue until the jobs are removed."""

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from psycopg import Connection

from tests.conftest import Connect
from tests.support.apps import run
from tests.support.stores import CONTENT, Album, Resize, count_rows, sweep, unknown_reference, uses
from treadle import InvalidPayload, JobQueue, Once, Stored, StoredNotFound, Treadle
from treadle.db.database import Database
from treadle.db.queries import enqueueing

# When a use begins


def test_an_enqueued_job_uses_the_contents_in_its_arguments(
    app: Treadle, resize: Resize, url: str, connection: Connection[Any]
) -> None:
    five = [app.store(b"%d" % n) for n in range(5)]
    album = Album(cover=five[1], pictures=[five[0], five[2]])
    handle = resize.enqueue(five[0], others=[five[0], five[3]], album=album, extra={"deep": [five[4]]})
    assert uses(connection) == {(each.id, handle.id) for each in five}
    assert sweep(url) == 0
    assert [app.read(each) for each in five] == [b"0", b"1", b"2", b"3", b"4"]


def test_a_job_enqueued_asynchronously_uses_its_contents(
    app: Treadle, resize: Resize, connection: Connection[Any]
) -> None:
    async def main() -> tuple[Any, Any]:
        stored = await app.astore(b"1")
        return stored.id, (await resize.aenqueue(stored)).id

    assert uses(connection) == set() != {run(app, main())} == uses(connection)


def test_each_job_of_enqueue_many_uses_its_own_contents(
    app: Treadle, resize: Resize, connection: Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("treadle.db.queries.enqueueing.CHUNK", 10)

    @app.job
    def maybe(picture: Stored | None = None) -> None: ...

    stored = [app.store(b"%d" % n) for n in range(3)]
    calls = [{"picture": stored[n % 3]} if n in (0, 9, 10, 24) else {} for n in range(25)]
    ids = [handle.id for handle in maybe.enqueue_many(calls)]
    assert uses(connection) == {(stored[n % 3].id, ids[n]) for n in (0, 9, 10, 24)}
    # The ids are in the order of the calls, with or without references.
    data = [connection.execute("select data from jobs where id = %s", [each]).fetchone() for each in ids]
    assert [bool(row and row[0]) for row in data] == [n in (0, 9, 10, 24) for n in range(25)]


def test_an_existing_unique_job_uses_only_its_own_contents(
    app: Treadle, resize: Resize, url: str, connection: Connection[Any]
) -> None:
    first, second = app.store(b"1"), app.store(b"2")
    one = resize.using(unique=Once(key="u")).enqueue(first)
    two = resize.using(unique=Once(key="u")).enqueue(second)
    assert one.id == two.id
    assert uses(connection) == {(first.id, one.id)}
    assert sweep(url) == 1


def test_an_enqueue_without_references_sends_no_additional_queries(
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
    one = enqueueing.enqueue("maybe", {"n": 1}, None)
    (many,) = enqueueing.enqueue_many("maybe", [{"n": 0}, {"n": 1}, {"n": 2}], None)
    assert [(each.text, each.params) for each in sent] == [(each.text, each.params) for each in (one, many)]


def test_an_unknown_reference_is_an_error_and_nothing_is_enqueued(
    app: Treadle, resize: Resize, queue: JobQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("treadle.db.queries.enqueueing.CHUNK", 2)
    missing, known = unknown_reference(), app.store(b"1")
    enqueues: list[Callable[[], Any]] = [
        lambda: resize.enqueue(missing),
        lambda: resize.using(unique=Once(key="u")).enqueue(missing),
        lambda: resize.enqueue_many([{"picture": known}] * 4 + [{"picture": missing}]),
        lambda: run(app, resize.aenqueue(missing)),
    ]
    for enqueue in enqueues:
        with pytest.raises(StoredNotFound, match=f"stored value {missing.id} does not exist"):
            enqueue()
    assert queue.list().jobs == []


def test_a_refused_payload_uses_no_contents(app: Treadle, resize: Resize, connection: Connection[Any]) -> None:
    stored = app.store(b"1")
    with pytest.raises(InvalidPayload):
        resize.enqueue(stored, extra=float("nan"))
    with pytest.raises(InvalidPayload):
        resize.enqueue_many([{"picture": stored}, {"picture": 7}])
    assert uses(connection) == set()


def test_use_stored_in_sql_ignores_unknown_jobs_and_returns_unknown_contents(
    app: Treadle, resize: Resize, connection: Connection[Any]
) -> None:
    stored, other, missing = app.store(b"1"), app.store(b"2"), unknown_reference()
    job = resize.enqueue(other)
    missing_ids = connection.execute(
        "select use_stored(%s, %s)",
        [[job.id, job.id, uuid4(), job.id], [stored.id, stored.id, stored.id, missing.id]],
    ).fetchall()
    assert missing_ids == [(missing.id,)]
    assert uses(connection) == {(stored.id, job.id), (other.id, job.id)}


# When a use ends


def test_a_use_ends_with_its_job(
    app: Treadle, resize: Resize, queue: JobQueue, url: str, connection: Connection[Any]
) -> None:
    stored = app.store(CONTENT)
    first, second = resize.enqueue(stored), resize.enqueue(stored)
    for job in queue.claim(["resize"]):
        queue.complete(job)
    assert sweep(url) == 0  # finished jobs still exist and can be retried
    connection.execute("delete from jobs where id = %s", [first.id])
    assert sweep(url) == 0
    assert uses(connection) == {(stored.id, second.id)}
    assert queue.prune("completed", 0) == 1
    assert uses(connection) == set()
    assert sweep(url) == 1
    assert (count_rows(connection, "stored"), count_rows(connection, "stored_parts")) == (0, 0)
    with pytest.raises(StoredNotFound):
        app.read(stored)


@pytest.mark.fresh_database
def test_pruning_jobs_without_references_searches_for_uses_once(app: Treadle, resize: Resize, connect: Connect) -> None:
    connection = connect()

    def searches() -> int:
        row = connection.execute(
            "select idx_scan + seq_scan from pg_stat_xact_user_tables where relid = 'stored_uses'::regclass"
        ).fetchone()
        return int(row[0]) if row else 0

    def searches_while_pruning() -> int:
        """How often stored_uses is searched while 1,000 jobs without references are pruned."""
        connection.execute(
            "insert into jobs (job_type, status) select 'plain', 'completed' from generate_series(1, 1000)"
        )
        with connection.transaction():
            before = searches()
            pruned = connection.execute("select pruned from prune_jobs('completed', '0', 1000)").fetchone()
            assert pruned == (1000,)
            return searches() - before

    assert searches_while_pruning() == 1
    for _ in range(20):
        resize.enqueue(app.store(b"1"))
    assert searches_while_pruning() == 1

"""How many jobs may wait, as code declares it."""

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from psycopg import Connection

from tests.support.workers import drain
from treadle import InvalidArgument, Limit, MaxPending, QueueFull, Stored, Treadle
from treadle.db.queries import limits as limit_queries


def declare(app: Treadle) -> None:
    """As a worker does when it starts."""
    app.database.run(limit_queries.declare(app.declared_limits()))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MaxPending(-1), "MaxPending must be an integer"),
        (lambda: MaxPending(1, when_full="explode"), 'when_full must be "refuse" or "drop", got \'explode\''),  # type: ignore[arg-type]
        (lambda: MaxPending(1, wait="soon"), "wait must be a duration such as"),
        (lambda: MaxPending(1, wait="5s", when_full="drop"), "wait cannot be used with when_full"),
        (lambda: MaxPending("many"), "MaxPending must be an integer from 0 to 10,000,000, got 'many'"),  # type: ignore[arg-type]
        (lambda: MaxPending(True), "MaxPending must be an integer"),
        (lambda: Treadle().limit_queue("mail", MaxPending(1, wait="5s")), "wait is for the max_pending of a job"),
    ],
)
def test_bad_values_are_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        make()


def test_it_is_in_force_when_a_worker_has_started(app: Treadle) -> None:
    @app.job(limits=MaxPending(2))
    def sync() -> None: ...

    sync.enqueue_many([{}] * 3)
    drain(app)
    sync.enqueue_many([{}] * 2)
    with pytest.raises(QueueFull):
        sync.enqueue()


def test_it_is_for_each_value_together_with_a_limit(app: Treadle) -> None:
    @app.job(limits=[Limit(1), MaxPending(3), MaxPending(2, per="tenant")])
    def sync(tenant: str) -> None: ...

    declare(app)
    sync.enqueue_many([{"tenant": "acme"}] * 2)
    with pytest.raises(QueueFull):
        sync.enqueue("acme")
    sync.enqueue("zeta")
    with pytest.raises(QueueFull):
        sync.enqueue("third")
    assert {each.name for each in app.limits()} >= {"sync", "sync max_pending", "sync max_pending per tenant"}


def test_a_queue_can_have_one(app: Treadle) -> None:
    app.limit_queue("mail", MaxPending(1))

    @app.job(queue="mail")
    def send() -> None: ...

    declare(app)
    send.enqueue()
    with pytest.raises(QueueFull):
        send.enqueue()
    send.using(queue="other").enqueue()


def test_a_long_list_is_enqueued_as_a_whole_or_not_at_all(app: Treadle, connection: Connection[Any]) -> None:
    """In the caller's transaction, too, which goes on."""

    @app.job(limits=MaxPending(9000))
    def sync() -> None: ...

    declare(app)
    with connection.transaction():
        with pytest.raises(QueueFull, match=r"^10,000 jobs of type sync were not enqueued"):
            sync.using(connection=connection).enqueue_many([{}] * 10_000)
        connection.execute("create temp table went_on ()")
    assert connection.execute("select count(*) from jobs").fetchone() == (0,)


def test_jobs_that_are_added_to_a_workflow_count(app: Treadle) -> None:
    @app.job(limits=MaxPending(2))
    def count(n: int) -> None: ...

    declare(app)
    with app.batch("many") as batch:
        batch.enqueue_many(count, [{"n": n} for n in range(2)])
        with pytest.raises(QueueFull):
            batch.enqueue(count, n=3)


def test_an_enqueue_waits_until_fewer_jobs_do(app: Treadle) -> None:
    @app.job(limits=MaxPending(1, wait="20s"))
    def sync() -> None: ...

    declare(app)
    first = sync.enqueue()
    threading.Timer(0.3, first.cancel).start()
    began = time.monotonic()
    sync.enqueue()
    assert 0.2 < time.monotonic() - began < 15


def test_an_enqueue_waits_for_no_longer_than_given(app: Treadle) -> None:
    @app.job(limits=MaxPending(1, wait="0.3s"))
    def sync() -> None: ...

    async def wait() -> None:
        with pytest.raises(QueueFull):
            await sync.aenqueue()
        await app.aclose()

    declare(app)
    sync.enqueue()
    began = time.monotonic()
    with pytest.raises(QueueFull):
        sync.enqueue()
    assert time.monotonic() - began >= 0.3
    asyncio.run(wait())
    assert time.monotonic() - began >= 0.6


def test_a_job_with_stored_content_is_refused_as_well(app: Treadle, connection: Connection[Any]) -> None:
    @app.job(limits=MaxPending(1))
    def read(what: Stored) -> None: ...

    declare(app)
    stored = app.store(b"content")
    read.enqueue(stored)
    for enqueue in (lambda: read.enqueue(stored), lambda: read.enqueue_many([{"what": stored}])):
        with pytest.raises(QueueFull):
            enqueue()
    assert connection.execute("select count(*) from stored_uses").fetchone() == (1,)

"""Why a job does not run if there are several causes: the first is the reason, and the others are listed with it. When
one is removed, the next becomes the reason, until the job runs."""

import asyncio
from collections.abc import Iterator
from itertools import combinations
from typing import Any
from uuid import UUID

import pytest
from psycopg import Connection

from tests.conftest import Connect, Why
from tests.support.apps import heavy
from tests.support.why import register_worker
from tests.support.workers import auntil
from treadle import Handle, JobQueue, Treadle
from treadle.db.queries import worker as worker_queries

# In the order in which they are reported.
ORDER = [
    "out_of_attempts",
    "due_later",
    "paused",
    "key_blocked",
    "limit_paused",
    "no_worker",
    "no_worker_for_type",
    "no_worker_for_queue",
    "workers_paused",
    "busy",
    "locked",
]
UNSERVED = {"no_worker", "no_worker_for_type", "no_worker_for_queue", "workers_paused"}
PAIRS = [
    pair
    for pair in combinations(ORDER, 2)
    # Only one of the unserved causes applies. Jobs without a worker and delayed jobs do not wait for busy workers.
    if not (set(pair) <= UNSERVED or ("busy" in pair and set(pair) & (UNSERVED | {"due_later"})))
]


class Obstacles:
    """Creates and removes the causes that keep one job from running."""

    def __init__(self, queue: JobQueue, connection: Connection[Any], connect: Connect, causes: tuple[str, ...]) -> None:
        self.queue, self.connection = queue, connection
        self.locker = connect(autocommit=False)
        self.head = queue.enqueue("film", key="k") if "key_blocked" in causes else None
        self.job = queue.enqueue("mail", key="k")
        self.first = queue.enqueue("mail", priority=150) if "busy" in causes else None
        register_worker(connection)
        for cause in causes:
            getattr(self, cause)()

    def _change(self, change: str) -> None:
        self.connection.execute(f"update jobs set {change} where id = %s", [self.job])

    def out_of_attempts(self, remove: bool = False) -> None:
        self._change(f"attempts = {0 if remove else 3}")

    def due_later(self, remove: bool = False) -> None:
        self._change("run_at = clock_timestamp()" + ("" if remove else " + interval '1 hour'"))

    def paused(self, remove: bool = False) -> None:
        assert self.queue.resume("mail") if remove else self.queue.pause("mail")

    def key_blocked(self, remove: bool = False) -> None:
        if remove:
            assert self.head
            self.queue.complete(self.head)

    def limit_paused(self, remove: bool = False) -> None:
        self.connection.execute("select set_limit('mail', %s, p_job_type => 'mail')", [100 if remove else 0])

    def no_worker(self, remove: bool = False) -> None:
        self.connection.execute("update workers set lost_at = %s", [None if remove else "now"])

    def no_worker_for_type(self, remove: bool = False) -> None:
        register_worker(self.connection, "{mail}" if remove else "{song}")

    def no_worker_for_queue(self, remove: bool = False) -> None:
        register_worker(self.connection, queues=None if remove else "{elsewhere}")

    def workers_paused(self, remove: bool = False) -> None:
        self.connection.execute("select set_concurrency('w1', %s)", [None if remove else 0])

    def busy(self, remove: bool = False) -> None:
        if remove:
            assert self.first
            self.queue.cancel(self.first)

    def locked(self, remove: bool = False) -> None:
        if remove:
            self.locker.rollback()
            return
        self.locker.execute("select from jobs where id = %s for update", [self.job])
        self.connection.execute("select pg_sleep(1.1)")


@pytest.fixture
def obstacles(
    queue: JobQueue, connection: Connection[Any], connect: Connect, request: pytest.FixtureRequest
) -> Iterator[Obstacles]:
    made = Obstacles(queue, connection, connect, request.param)
    yield made
    made.locker.rollback()


def reasons(why: Why, job: UUID) -> list[str]:
    reason = why(job)
    return [reason.name, *(each.name for each in reason.also)]


@pytest.mark.parametrize("obstacles", PAIRS, ids="-".join, indirect=True)
def test_of_two_causes_the_first_is_the_reason_until_it_is_removed(
    obstacles: Obstacles, why: Why, request: pytest.FixtureRequest
) -> None:
    first, second = request.node.callspec.params["obstacles"]
    assert reasons(why, obstacles.job) == [first, second]
    if second == "locked":  # its row cannot be changed while it is locked
        first, second = second, first
    getattr(obstacles, first)(remove=True)
    assert reasons(why, obstacles.job) == [second]
    if second not in UNSERVED | {"busy"}:  # a client without a worker process could claim those
        assert obstacles.job not in {job.id for job in obstacles.queue.claim(["mail"])}
    getattr(obstacles, second)(remove=True)
    assert reasons(why, obstacles.job) == ["ready"]
    assert [job.id for job in obstacles.queue.claim(["mail"])] == [obstacles.job]


CHAIN = ("out_of_attempts", "due_later", "paused", "key_blocked", "limit_paused", "no_worker_for_type")


@pytest.mark.parametrize("obstacles", [CHAIN], ids=["all"], indirect=True)
def test_after_each_removed_cause_the_next_is_reported_until_the_job_runs(
    obstacles: Obstacles, why: Why, app: Treadle, connection: Connection[Any]
) -> None:
    left = list(CHAIN)
    while len(left) > 1:
        assert reasons(why, obstacles.job) == left
        getattr(obstacles, left.pop(0))(remove=True)
    assert reasons(why, obstacles.job) == left

    go = asyncio.Event()

    @app.job
    async def mail() -> None:
        await go.wait()

    async def run() -> list[str]:
        names = []
        handle = app.handle(obstacles.job)
        try:
            async with app.worker():
                await auntil(lambda: _running(handle))
                names.append((await handle.awhy()).name)
                go.set()
                await handle.aresult(timeout=30)
                names.append((await handle.awhy()).name)
        finally:
            await app.aclose()
        return names

    assert asyncio.run(run()) == ["running", "completed"]


async def _running(handle: Handle[Any]) -> bool:
    return (await handle.awhy()).name == "running"


def test_a_worker_registers_the_types_that_it_runs_in_child_processes(
    app: Treadle, connection: Connection[Any]
) -> None:
    @app.job
    def film() -> None: ...

    app.job(name="book", process=True)(heavy)

    app.database.run(worker_queries.register(app.worker(children=3).registration()))
    registered = connection.execute("select job_types, process_types, children from workers").fetchone()
    assert registered == (["book", "film"], ["book"], 3)

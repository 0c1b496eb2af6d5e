"""Why a job does not run when several things are in the way: the first is named, the others are told with it; and when
one is lifted, the next, until it runs."""

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

# In the order in which they are told.
ORDER = [
    "out_of_attempts",
    "due_later",
    "paused",
    "key_blocked",
    "no_worker",
    "no_worker_for_type",
    "no_worker_for_queue",
    "busy",
    "locked",
]
UNSERVED = {"no_worker", "no_worker_for_type", "no_worker_for_queue"}
PAIRS = [
    pair
    for pair in combinations(ORDER, 2)
    # There is one reason why nobody serves it; who is not served is not in line, and who is due later not yet.
    if not (set(pair) <= UNSERVED or ("busy" in pair and set(pair) & (UNSERVED | {"due_later"})))
]


class Obstacles:
    """Things in the way of one job, put there and taken away."""

    def __init__(self, queue: JobQueue, connection: Connection[Any], connect: Connect, causes: tuple[str, ...]) -> None:
        self.queue, self.connection = queue, connection
        self.stranger = connect(autocommit=False)
        self.head = queue.enqueue("film", key="k") if "key_blocked" in causes else None
        self.job = queue.enqueue("mail", key="k")
        self.first = queue.enqueue("mail", priority=150) if "busy" in causes else None
        register_worker(connection)
        for cause in causes:
            getattr(self, cause)()

    def _change(self, change: str) -> None:
        self.connection.execute(f"update jobs set {change} where id = %s", [self.job])

    def out_of_attempts(self, lift: bool = False) -> None:
        self._change(f"attempts = {0 if lift else 3}")

    def due_later(self, lift: bool = False) -> None:
        self._change("run_at = clock_timestamp()" + ("" if lift else " + interval '1 hour'"))

    def paused(self, lift: bool = False) -> None:
        assert self.queue.resume("mail") if lift else self.queue.pause("mail")

    def key_blocked(self, lift: bool = False) -> None:
        if lift:
            assert self.head
            self.queue.complete(self.head)

    def no_worker(self, lift: bool = False) -> None:
        self.connection.execute("update workers set lost_at = %s", [None if lift else "now"])

    def no_worker_for_type(self, lift: bool = False) -> None:
        register_worker(self.connection, "{mail}" if lift else "{song}")

    def no_worker_for_queue(self, lift: bool = False) -> None:
        register_worker(self.connection, queues=None if lift else "{elsewhere}")

    def busy(self, lift: bool = False) -> None:
        if lift:
            assert self.first
            self.queue.cancel(self.first)

    def locked(self, lift: bool = False) -> None:
        if lift:
            self.stranger.rollback()
            return
        self.stranger.execute("select from jobs where id = %s for update", [self.job])
        self.connection.execute("select pg_sleep(1.1)")


@pytest.fixture
def obstacles(
    queue: JobQueue, connection: Connection[Any], connect: Connect, request: pytest.FixtureRequest
) -> Iterator[Obstacles]:
    made = Obstacles(queue, connection, connect, request.param)
    yield made
    made.stranger.rollback()


def told(why: Why, job: UUID) -> list[str]:
    reason = why(job)
    return [reason.name, *(each.name for each in reason.also)]


@pytest.mark.parametrize("obstacles", PAIRS, ids="-".join, indirect=True)
def test_of_two_causes(obstacles: Obstacles, why: Why, request: pytest.FixtureRequest) -> None:
    first, second = request.node.callspec.params["obstacles"]
    assert told(why, obstacles.job) == [first, second]
    if second == "locked":  # then its row cannot be changed
        first, second = second, first
    getattr(obstacles, first)(lift=True)
    assert told(why, obstacles.job) == [second]
    if second not in UNSERVED | {"busy"}:  # a client by hand could take those
        assert obstacles.job not in {job.id for job in obstacles.queue.claim(["mail"])}
    getattr(obstacles, second)(lift=True)
    assert told(why, obstacles.job) == ["ready"]
    assert [job.id for job in obstacles.queue.claim(["mail"])] == [obstacles.job]


CHAIN = ("out_of_attempts", "due_later", "paused", "key_blocked", "no_worker_for_type")


@pytest.mark.parametrize("obstacles", [CHAIN], ids=["all"], indirect=True)
def test_after_each_lifted_cause_the_next_is_told_until_it_runs(
    obstacles: Obstacles, why: Why, app: Treadle, connection: Connection[Any]
) -> None:
    left = list(CHAIN)
    while len(left) > 1:
        assert told(why, obstacles.job) == left
        getattr(obstacles, left.pop(0))(lift=True)
    assert told(why, obstacles.job) == left

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


def test_a_worker_says_what_it_runs_in_child_processes(app: Treadle, connection: Connection[Any]) -> None:
    @app.job
    def film() -> None: ...

    app.job(name="book", process=True)(heavy)

    app.database.run(worker_queries.register(app.worker(children=3).registration()))
    told = connection.execute("select job_types, process_types, children from workers").fetchone()
    assert told == (["book", "film"], ["book"], 3)

"""One job wakes one of many workers. Counted in statements: how often all of them claim and check for one job."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from functools import partial
from statistics import quantiles
from typing import Any

import pytest

from tests.support.workers import auntil, auntil_waiting, running_worker
from treadle import Job, Treadle
from treadle.db.query import Query
from treadle.db.reconnecting import ReconnectingConnection
from treadle.worker import claimer, notifications, sleeper
from treadle.worker.keeper import Keeper
from treadle.worker.worker import Worker

pytestmark = pytest.mark.fresh_database

JOBS = 10


def apart() -> None: ...


@asynccontextmanager
async def workers(app: Treadle, number: int, **options: Any) -> AsyncIterator[list[Worker]]:
    """So many workers that know each other."""
    async with AsyncExitStack() as stack:
        chosen: dict[str, Any] = {"lease": "60s", "poll": "60s", "concurrency": 5} | options
        started = [await stack.enter_async_context(running_worker(app, **chosen)) for _ in range(number)]
        await auntil(lambda: all(len(each.notifications.peers) == number - 1 for each in started))
        for each in started:
            await auntil_waiting(each)
        await asyncio.sleep(0.1)  # for the last checks
        yield started


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each function is called."""
    found: Counter[str] = Counter()
    run = ReconnectingConnection.run

    async def counted(self: ReconnectingConnection, query: Query[Any]) -> Any:
        found[query.text.partition("treadle.")[2].partition("(")[0]] += 1
        return await run(self, query)

    monkeypatch.setattr(ReconnectingConnection, "run", counted)
    return found


# Workers with jobs for child processes claim for these apart, and still for the others as without them.
@pytest.mark.parametrize(("number", "children"), [(1, False), (2, True), (8, True)])
def test_a_job_costs_few_claims_however_many_workers_are_idle(
    app: Treadle, calls: Counter[str], number: int, children: bool
) -> None:
    @app.job
    async def hello() -> str:
        return "hello"

    if children:
        app.job(process=True)(apart)

    async def body() -> None:
        async with workers(app, number, **({"children": 2} if children else {})) as started:
            assert await (await hello.aenqueue()).aresult(30) == "hello"
            await asyncio.sleep(4 * claimer.RECHECK_SECONDS[0])
            claims, checks = [], []
            for _ in range(JOBS):
                calls.clear()
                assert await (await hello.aenqueue()).aresult(30) == "hello"
                for each in started:
                    await auntil_waiting(each)
                await asyncio.sleep(2 * claimer.RECHECK_SECONDS[0])
                claims.append(calls["claim_work"])
                checks.append(calls["next_due"])
            # Not each of them: on a busy machine a worker may take so long that another one checks.
            assert quantiles(claims)[0] <= 2, claims
            assert quantiles(checks)[0] <= 2, checks
        await app.aclose()

    asyncio.run(body())


def test_a_worker_says_which_notification_it_has_answered(app: Treadle, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the others do not ask for the next one while it looks for jobs."""
    answered: list[int] = []
    run = ReconnectingConnection.run

    async def noted(self: ReconnectingConnection, query: Query[Any]) -> Any:
        answered.append(query.params.get("answered") or 0)
        return await run(self, query)

    @app.job
    async def hello() -> str:
        return "hello"

    async def body() -> None:
        async with workers(app, 2):
            monkeypatch.setattr(ReconnectingConnection, "run", noted)
            for _ in range(2):  # the first notification of a new database has no number
                assert await (await hello.aenqueue()).aresult(30) == "hello"
            await auntil(lambda: max(answered, default=0) > 1)
        await app.aclose()

    asyncio.run(body())


def test_a_job_wakes_one_of_the_workers_that_sleep(app: Treadle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sleeper, "AFTER_SECONDS", 0.5)
    monkeypatch.setattr(sleeper, "CHECK_SECONDS", 0.05)
    # On a busy machine the first may take so long that another one looks.
    monkeypatch.setattr(sleeper, "RECHECK_SECONDS", (1000.0,))
    # They were not heard for longer than an awake worker may be silent.
    monkeypatch.setattr(notifications, "FORGET_SECONDS", 3.0)

    @app.job
    async def hello() -> str:
        return "hello"

    async def body() -> None:
        async with workers(app, 4) as started:
            assert await (await hello.aenqueue()).aresult(30) == "hello"  # the first notification wakes all
            await auntil(lambda: all(each.sleeper.asleep for each in started))
            await asyncio.sleep(3.5)
            monkeypatch.setattr(sleeper, "AFTER_SECONDS", 3600.0)
            assert await (await hello.aenqueue()).aresult(30) == "hello"
            await asyncio.sleep(4 * claimer.RECHECK_SECONDS[0])
            assert sum(not each.sleeper.asleep for each in started) == 1
        await app.aclose()

    asyncio.run(body())


def test_a_worker_that_does_not_answer_delays_no_job(app: Treadle) -> None:
    """As if it hung, or had been killed a moment ago: the next in the order finds the job, not only the poll."""

    @app.job
    async def hello() -> str:
        return "hello"

    async def body() -> None:
        async with workers(app, 3) as started:
            started[0].notifications.listener.received = lambda _: None
            for _ in range(JOBS):
                assert await (await hello.aenqueue()).aresult(30) == "hello"
        await app.aclose()

    asyncio.run(body())


def test_a_worker_without_room_passes_the_notification_on(app: Treadle, monkeypatch: pytest.MonkeyPatch) -> None:
    # Otherwise the checks of the others would find the jobs, too.
    monkeypatch.setattr(claimer, "RECHECK_SECONDS", (1000.0,))
    monkeypatch.setattr(notifications, "PASS_SECONDS", 0.0)
    running: list[str] = []
    done = asyncio.Event()

    @app.job
    async def wait(job: Job) -> None:
        running.append(job.worker_id)
        await done.wait()

    async def body() -> None:
        async with workers(app, 4, concurrency=1, prefetch=0) as started:
            for nth in range(len(started)):
                await wait.aenqueue()
                await auntil(partial(has_length, running, nth + 1))
            assert len(set(running)) == len(started)
            done.set()
        await app.aclose()

    asyncio.run(body())


def has_length(found: list[str], expected: int) -> bool:
    return len(found) == expected


def test_more_jobs_than_one_worker_has_room_for_wake_all(app: Treadle) -> None:
    busy: set[str] = set()
    done = asyncio.Event()

    @app.job
    async def wait(job: Job) -> None:
        busy.add(job.worker_id)
        await done.wait()

    async def body() -> None:
        async with workers(app, 4, prefetch=0) as started:
            await wait.aenqueue_many([{}] * 100)
            await auntil(lambda: len(busy) == len(started))
            done.set()
        await app.aclose()

    asyncio.run(body())


def test_workers_of_other_types_are_woken_as_well(app: Treadle) -> None:
    @app.job
    async def here() -> str:
        return "here"

    @app.job
    async def there() -> str:
        return "there"

    async def body() -> None:
        async with (
            workers(app, 2, types=["here"]) as first,
            workers(app, 2, types=["there"]) as second,
        ):
            for _ in range(JOBS):
                jobs = [await here.aenqueue(), await there.aenqueue()]
                assert [await each.aresult(30) for each in jobs] == ["here", "there"]
                for each in (*first, *second):
                    await auntil_waiting(each)
        await app.aclose()

    asyncio.run(body())


def test_a_worker_that_was_found_dead_is_no_longer_chosen(app: Treadle, monkeypatch: pytest.MonkeyPatch) -> None:
    # It is not really dead: if it greeted later, it would be known again.
    monkeypatch.setattr(notifications, "GREET_SECONDS", 0.0)

    @app.job
    async def hello() -> None: ...

    async def body() -> None:
        async with workers(app, 2) as started:
            dead, alive = started
            keeper = Keeper(app.database.url, app.schema, timedelta(seconds=60), 3)
            await keeper.recover(dead.worker_id, "it was killed")
            await auntil(lambda: len(alive.notifications.peers) == 0)
            await keeper.close()
        await app.aclose()

    asyncio.run(body())


def test_a_worker_that_stops_is_no_longer_chosen(app: Treadle) -> None:
    @app.job
    async def hello() -> str:
        return "hello"

    async def body() -> None:
        async with workers(app, 1) as remaining:
            async with running_worker(app, lease="60s", poll="60s"):
                await auntil(lambda: len(remaining[0].notifications.peers) == 1)
            assert len(remaining[0].notifications.peers) == 0
            assert await (await hello.aenqueue()).aresult(30) == "hello"
        await app.aclose()

    asyncio.run(body())

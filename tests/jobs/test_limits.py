"""Limits as code declares them: what is refused, the partition of a job, and a worker that obeys."""

import asyncio
import json
import time
from itertools import pairwise
from typing import Any

import pytest
from psycopg import Connection

from tests.support.workers import drain, running_worker
from treadle import InvalidArgument, Limit, Once, Rate, RateLimited, Treadle


def partition_of(connection: Connection[Any]) -> object:
    row = connection.execute("select partition::jsonb from jobs order by id desc limit 1").fetchone()
    assert row
    return row[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"limits": 3}, "limits must be Limit"),
        ({"limits": [Limit(1), 3]}, "limits must be Limit"),
        ({"limits": [Limit(1), Limit(2)]}, "two limits have the name 'sync'"),
        ({"fair_by": ""}, "per must be a string"),
        ({"weight": 0}, "weight must be an integer from 1"),
    ],
)
def test_bad_limits_are_refused(app: Treadle, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):

        @app.job(**options)
        def sync() -> None: ...


def test_bad_values_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="Limit must be an integer"):
        Limit(-1)
    with pytest.raises(InvalidArgument, match="longer than 0 s"):
        Rate(1, "0s")
    with pytest.raises(InvalidArgument, match="smooth=True means burst=1"):
        Rate(1, "1s", burst=5, smooth=True)
    with pytest.raises(InvalidArgument, match="per must be the name of an argument"):
        Limit(1, per=7)  # type: ignore[arg-type]


def test_the_partition_has_the_values_of_the_arguments(app: Treadle, connection: Connection[Any]) -> None:
    @app.job(limits=[Limit(3, per="tenant"), Limit(1, per="account"), Rate(5, "1s", per="tenant")])
    def sync(tenant: str, account: int = 7) -> None: ...

    sync.enqueue("acme")
    assert partition_of(connection) == {"tenant": "acme", "account": "7"}
    sync.enqueue_many([{"tenant": "globex", "account": 8}])
    assert partition_of(connection) == {"tenant": "globex", "account": "8"}
    sync.using(partition={"tenant": "other"}, weight=2, unique=Once()).enqueue("acme")
    assert partition_of(connection) == {"tenant": "other", "account": "7"}


def test_the_partition_by_a_function_or_given(app: Treadle, connection: Connection[Any]) -> None:
    def region(tenant: str) -> str:
        return tenant[:2]

    @app.job(limits=[Limit(3, per=region), Limit(2, per="plan", name="plan")])
    def sync(tenant: str) -> None: ...

    with pytest.raises(InvalidArgument, match=r"per 'plan'.*using\(partition="):
        sync.enqueue("no-acme")
    sync.using(partition={"plan": "free"}).enqueue("no-acme")
    assert partition_of(connection) == {"region": "no", "plan": "free"}


@pytest.mark.parametrize("value", ["null", None, "", 7, True, 1e22, 1.5, 1e-7, ["é"]])
def test_sql_and_python_give_a_value_the_same_key(app: Treadle, connection: Connection[Any], value: Any) -> None:
    @app.job(limits=Limit(1, per="tenant"))
    def sync(tenant: Any) -> None: ...

    drain(app)  # which declares the limit
    sync.enqueue(value)
    connection.execute("select enqueue('sync', %s)", [json.dumps({"tenant": value})])
    rows = connection.execute("select limit_key('tenant', partition) from jobs where status = 'pending'").fetchall()
    assert len(rows) == 2
    assert len(set(rows)) == 1, rows


def test_a_replaced_job_has_the_values_of_its_new_arguments(app: Treadle, connection: Connection[Any]) -> None:
    @app.job(limits=[Limit(3, per="tenant"), Limit(5, per=lambda tenant, **_: tenant[0])], unique=Once(key="once"))
    def sync(tenant: str) -> None: ...

    handle = sync.enqueue("acme")
    assert partition_of(connection) == {"tenant": "acme", "key": "a"}
    drain(app)
    handle = sync.enqueue("acme")
    assert sync.using(unique=Once(key="once", on_conflict="replace")).enqueue("globex").id == handle.id
    assert partition_of(connection) == {"tenant": "globex", "key": "g"}
    drain(app)
    assert handle.job().status == "completed"


def test_two_types_share_a_limit_by_its_name(app: Treadle) -> None:
    @app.job(limits=Limit(2, name="crm"))
    def pull() -> None: ...

    with pytest.raises(InvalidArgument, match="declared twice"):

        @app.job(limits=Limit(3, name="crm"))
        def other() -> None: ...

    @app.job(limits=Limit(2, name="crm"))
    def push() -> None: ...

    ((limit, targets),) = app.declared_limits().limits
    assert (limit.name, targets.job_types) == ("crm", {"pull", "push"})


def test_a_worker_runs_no_more_than_the_limit_at_once(app: Treadle) -> None:
    running, most, done = 0, 0, []

    @app.job(limits=Limit(3))
    async def sync(nth: int) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)
        running -= 1
        done.append(nth)

    sync.enqueue_many([{"nth": nth} for nth in range(40)])
    drain(app, concurrency=20)
    assert (most, sorted(done)) == (3, list(range(40)))


def test_a_freed_slot_wakes_the_worker(app: Treadle) -> None:
    starts: list[float] = []

    @app.job(limits=Limit(1))
    async def sync() -> None:
        starts.append(time.monotonic())
        await asyncio.sleep(0.05)

    sync.enqueue_many([{}] * 5)
    drain(app, concurrency=20, poll="60s")
    assert len(starts) == 5
    assert max(later - earlier for earlier, later in pairwise(starts)) < 30


def test_the_whole_limit_waits_after_rate_limited(app: Treadle) -> None:
    starts: list[tuple[str, float]] = []

    @app.job(limits=Rate(100, "1s", per="tenant"))
    async def sync(tenant: str) -> None:
        starts.append((tenant, time.monotonic()))
        if tenant == "acme" and len([each for each in starts if each[0] == "acme"]) == 1:
            raise RateLimited("0.5s", for_="tenant")

    handle = sync.enqueue("acme")
    drain(app, concurrency=1)
    others = [sync.enqueue("acme"), sync.enqueue("globex")]

    async def finish() -> None:
        async with running_worker(app, concurrency=1):
            for each in (handle, *others):
                await each.aresult(30)

    asyncio.run(finish())
    assert handle.job().attempts == 1
    acme = [at for tenant, at in starts if tenant == "acme"]
    assert len(acme) == 3
    assert acme[1] - acme[0] > 0.45


def test_a_queue_can_be_limited(app: Treadle) -> None:
    app.limit_queue("mail", Limit(1))
    running, most = 0, 0

    @app.job(queue="mail")
    async def send() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)
        running -= 1

    send.enqueue_many([{}] * 10)
    drain(app, concurrency=20)
    assert most == 1

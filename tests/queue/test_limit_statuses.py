"""Limits as they are shown, and changed by operators."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from psycopg import Connection

from tests.queue.test_limits import aging, claim, complete, enqueue, limit, take_turns
from tests.support.buffers import buffers
from treadle import InvalidArgument, Treadle, UnknownLimit
from treadle.db.queries import limits as limit_queries
from treadle.db.query import Query
from treadle.db.runner import read_settings
from treadle.words.limit_status import LimitStatus, limit_in_words

Rows = Connection[Any]
NOW = datetime.now(UTC)


def seen(app: Treadle, name: str | None = None) -> dict[tuple[str, str | None], LimitStatus]:
    return {(each.name, each.key): each for each in app.limits(name)}


def seconds_until(moment: datetime | None) -> float:
    assert moment
    return (moment - datetime.now(UTC)).total_seconds()


def test_there_are_no_limits(app: Treadle) -> None:
    assert app.limits() == []


def test_a_limit_without_keys(app: Treadle, connection: Rows) -> None:
    limit(connection, 2)
    enqueue(connection, 5)
    (row,) = app.limits()
    assert (row.name, row.per, row.key, row.job_types, row.queues) == ("sync", None, None, ["sync"], [])
    assert (row.amount, row.seconds, row.burst, row.in_code) == (2, None, None, True)
    assert (row.in_use, row.available, row.lanes, row.waiting, row.exact) == (0, None, 0, 0, True)
    assert (row.changed_by, row.changed_at, row.description) == (None, None, "2 at once")
    first, _ = claim(connection)
    assert claim(connection) == []
    (row,) = app.limits()
    assert (row.in_use, row.lanes, row.waiting, row.opens_at, row.frees_at) == (2, 1, 3, None, None)
    complete(connection, first)
    assert app.limits()[0].in_use == 1, "a job that has ended no longer uses it"


def test_a_row_for_each_key_that_is_in_use_waited_for_or_changed(app: Treadle, connection: Rows) -> None:
    limit(connection, 1, per="tenant")
    enqueue(connection, 1, "used")
    enqueue(connection, 3, "waited")
    enqueue(connection, 1, "done")
    rows = claim(connection)
    complete(connection, *[row for row in rows if row[1] == "done"])
    claim(connection)
    app.limits.set("sync", 7, key="changed", actor="ann")
    found = app.limits()
    assert [each.key for each in found] == ["waited", None, "changed", "used"], "those that jobs wait for come first"
    assert [(each.in_use, each.waiting) for each in found] == [(1, 2), (None, 0), (0, 0), (1, 0)]
    assert [(each.amount, each.changed_by) for each in found] == [(1, None), (1, None), (7, "ann"), (1, None)]
    assert [each.scope for each in found][:2] == [" for tenant waited", ""]


def test_jobs_without_the_argument_have_an_empty_key(app: Treadle, connection: Rows) -> None:
    limit(connection, 1, per="region")
    enqueue(connection, 2)
    claim(connection)
    row = seen(app)["sync", ""]
    assert (row.in_use, row.scope) == (1, " for jobs without region")


def test_a_limit_per_period(app: Treadle, connection: Rows) -> None:
    limit(connection, 6, 60.0, burst=3)
    enqueue(connection, 5)
    claim(connection, 2)
    (row,) = app.limits()
    assert (row.in_use, row.available, row.opens_at, row.description) == (None, 1, None, "6 per minute, burst 3")
    claim(connection)
    claim(connection)
    (row,) = app.limits()
    assert (row.available, row.waiting) == (0, 2)
    assert 8 < seconds_until(row.opens_at) <= 10
    connection.execute("update limit_holders set closed_until = now() + interval '1 hour'")
    assert 3590 < seconds_until(app.limits()[0].opens_at) <= 3600


def test_keys_of_a_limit_per_period_are_shown_while_they_are_used(app: Treadle, connection: Rows) -> None:
    limit(connection, 2, 60.0, per="tenant")
    for tenant in ("acme", "globex", "zed"):
        enqueue(connection, 1, tenant)
    complete(connection, *claim(connection))
    connection.execute("update limit_holders set full_at = now() where key = 'globex'")
    assert list(seen(app)) == [("sync", None), ("sync", "acme"), ("sync", "zed")]


def test_weights_are_added(app: Treadle, connection: Rows) -> None:
    limit(connection, 10)
    enqueue(connection, 2, weight=4)
    claim(connection)
    assert app.limits()[0].in_use == 8


def test_one_limit_is_selected_by_name(app: Treadle, connection: Rows) -> None:
    for name in ("a", "b", "c"):
        limit(connection, 1, per="tenant", name=name)
    enqueue(connection, 3, "acme")
    enqueue(connection, 3, "globex")
    claim(connection)
    claim(connection)
    assert list(seen(app, "b")) == [("b", None), ("b", "acme"), ("b", "globex")]
    assert app.limits("nope") == []
    # The limits themselves are always among the rows.
    assert {each.key for each in app.limits("a", 1)} == {None}


def test_values_that_take_turns_have_weights(app: Treadle, connection: Rows) -> None:
    take_turns(connection)
    take_turns(connection, "", "")
    app.limits.set("sync fair", 5, key="acme")
    found = [(each.name, each.key_in_words, each.description, each.next_in_words) for each in app.limits()]
    assert found == [
        ("job types fair", "each job type", "weight 1", ""),
        ("sync fair", "each tenant", "weight 1", ""),
        ("sync fair", "acme", "weight 5", ""),
    ]
    states = {(each.kind, each.in_use, each.reached, each.paused) for each in app.limits()}
    assert states == {("fairness", None, False, False)}
    app.limits.set("sync fair", 0, key="acme")
    (row,) = [each for each in app.limits() if each.key]
    assert (row.description, row.paused) == ("weight 0", False)


def test_how_many_may_wait(app: Treadle, connection: Rows) -> None:
    limit(connection, 4, name="sync max_pending", when_full="refuse")
    limit(connection, 2, per="tenant", name="sync max_pending per tenant", when_full="drop")
    enqueue(connection, 2, "acme")
    enqueue(connection, 1, "globex")
    whole, tenants = app.limits()
    assert (whole.kind, whole.description, whole.in_use, whole.reached) == (
        "pending",
        "4 waiting, then refuse",
        3,
        False,
    )
    assert (tenants.description, tenants.in_use, tenants.next_in_words) == ("2 waiting, then drop", None, "")
    rows = app.database.read(limit_queries.find_keys("sync max_pending per tenant", "acme"))
    (acme,) = [each for each in rows if each.key]
    assert (acme.in_use, acme.used, acme.capacity, acme.reached, acme.next_in_words) == (2, 2, 2, True, "full")
    enqueue(connection, 1, "zed")
    assert app.limits()[0].next_in_words == "full"
    app.limits.set("sync max_pending", 1_000_000)
    assert (app.limits()[0].amount, app.limits()[0].declared_description) == (1_000_000, "4 waiting, then refuse")
    with pytest.raises(InvalidArgument, match="does not limit which jobs start"):
        app.limits.pause("sync max_pending")


def test_only_some_limits_for_jobs_that_wait_are_counted(app: Treadle, connection: Rows) -> None:
    for nth in range(7):
        limit(connection, 4, name=f"p{nth}", when_full="refuse")
    enqueue(connection, 1)
    assert [each.in_use for each in app.limits()] == [1, 1, 1, 1, 1, None, None]
    assert app.limits("p6")[0].in_use == 1


def test_aging(app: Treadle, connection: Rows) -> None:
    aging(connection)
    (row,) = app.limits()
    assert (row.kind, row.description, row.next_in_words) == ("aging", "10 of 100 claims after 1h 00m", "")
    assert (row.used, row.reached, row.paused, row.key_in_words) == (None, False, False, "")
    app.limits.set("aging", 20, period="2h")
    assert app.limits()[0].description == "20 of 100 claims after 2h 00m"
    with pytest.raises(InvalidArgument, match="limit 'aging' is about aging: it has no burst"):
        app.limits.set("aging", 20, burst=2)
    with pytest.raises(InvalidArgument, match="the amount of a limit must be an integer from 0 to 100, got 101"):
        app.limits.set("aging", 101)


def test_limits_are_searched(app: Treadle, connection: Rows) -> None:
    limit(connection, 1, per="tenant")
    limit(connection, 2, name="Other", job_types=["mail"])
    limit(connection, 3, name="a_c", job_types=["x"])

    def names(text: str) -> list[str]:
        return [each.name for each in app.database.read(limit_queries.find_matching(text))]

    assert (names("OTHER"), names("mai"), names("_"), names("sync")) == (["Other"], ["Other"], ["a_c"], ["sync"])
    assert names("nothing") == []
    assert [each.key for each in app.database.read(limit_queries.find_matching("sync"))] == [None]


def test_keys_are_searched_by_their_beginning(app: Treadle, connection: Rows) -> None:
    limit(connection, 1, per="tenant")
    for tenant in ("acme", "acme-2", "acme_3", "Acme", "zed", "a", "%"):
        enqueue(connection, 2, tenant)
    claim(connection)
    claim(connection)

    def keys(key: str, limit: int = 100) -> set[str | None]:
        return {each.key for each in app.database.read(limit_queries.find_keys("sync", key, limit))}

    assert keys("acme") == {None, "acme", "acme-2", "acme_3"}
    assert keys("zed") == {None, "zed"}
    (found,) = [each for each in app.database.read(limit_queries.find_keys("sync", "zed")) if each.key]
    assert found._replace(at=NOW) == seen(app)["sync", "zed"]._replace(at=NOW), "as in the list"
    assert keys("%") == {None, "%"}
    # One that no job has used can be changed.
    assert keys("new") == {None, "new"}
    assert keys("", 2) == {None, "", "%", "Acme"}
    assert app.database.read(limit_queries.find_keys("nope", "a")) == []


@pytest.mark.fresh_database
def test_the_cost_of_a_search_does_not_grow_with_the_number_of_keys(app: Treadle, connection: Rows) -> None:
    limit(connection, 1, per="tenant")
    connection.execute("set session_replication_role = replica")
    add = "insert into limit_keys (name, key) select 'sync', 'k' || nth from generate_series(%s::int, %s::int) as nth"

    def cost(query: Query[Any]) -> int:
        for _ in range(2):
            with connection.transaction(force_rollback=True):
                connection.execute(read_settings(60))
                text = b"explain (analyze, buffers, format json) " + query.bound("treadle")
                row = connection.execute(text, query.params).fetchone()
            assert row
            plan = row[0][0]["Plan"]
        return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])

    connection.execute(add, [1, 300])
    connection.execute("vacuum analyze limit_keys")
    before = cost(limit_queries.find_keys("sync", "k", 50))
    connection.execute(add, [301, 10_000])
    connection.execute("vacuum analyze limit_keys")
    assert cost(limit_queries.find_keys("sync", "k", 50)) < before * 1.2 + 50
    assert len(app.database.read(limit_queries.find_keys("sync", "k", 50))) == 52


@pytest.mark.fresh_database
def test_the_cost_is_bounded(app: Treadle, connection: Rows) -> None:
    limit(connection, 1, per="tenant")
    limit(connection, 1, 3600.0, per="tenant", name="rate")
    connection.execute("set session_replication_role = replica")
    fill = """
        insert into jobs (id, job_type, partition, data, run_at)
        select new_id(), 'sync', format('{"tenant": "t%%s"}', nth %% %(keys)s), '{}', now() - interval '1 minute'
        from generate_series(1, %(jobs)s) as nth"""
    park = """
        insert into lanes (queue, job_type, priority, partition, limit_name, limit_key, dormant_xid)
        select 'default', 'sync', 100, format('{"tenant": "t%%s"}', nth), 'sync', 't' || nth, '3'
        from generate_series(0, %(keys)s - 1) as nth"""
    connection.execute(fill, {"keys": 300, "jobs": 1000})
    connection.execute(park, {"keys": 300})
    connection.execute("vacuum analyze jobs, lanes")
    before = buffers(connection, "select * from find_limits()")
    connection.execute("delete from lanes")
    connection.execute(fill, {"keys": 10_000, "jobs": 50_000})
    connection.execute(park, {"keys": 10_000})
    connection.execute(
        """insert into limit_holders (name, key, version, full_at)
        select 'rate', 't' || nth, 1, now() + interval '1 hour' from generate_series(1, 10000) as nth"""
    )
    connection.execute("insert into limit_keys (name, key) select name, key from limit_holders")
    connection.execute("vacuum analyze")
    after = buffers(connection, "select * from find_limits()")
    assert after < before * 1.5 + 2000, (before, after)
    assert len(app.limits()) == 100
    # One lane with all the jobs.
    connection.execute('update jobs set partition = \'{"tenant": "t0"}\'')
    connection.execute("vacuum analyze jobs")
    deep = app.limits()[0]
    assert (deep.waiting, deep.exact) == (500, False)
    assert buffers(connection, "select * from find_limits()") < before + 5000


# Changes


def test_a_limit_is_set_paused_and_reset(app: Treadle, connection: Rows) -> None:
    limit(connection, 2, per="tenant")
    app.limits.set("sync", 5, actor="ann", reason="they pay")
    (row,) = app.limits()
    assert (row.amount, row.declared_amount, row.changed_by) == (5, 2, "ann")
    app.limits.pause("sync", "acme", reason="their API is down")
    assert seen(app)["sync", "acme"].amount == 0
    assert app.limits.reset("sync", "acme")
    assert not app.limits.reset("sync", "acme")
    assert app.limits.reset("sync")
    assert [each.amount for each in app.limits()] == [2]
    audited = connection.execute("select action, reason from audit order by id").fetchall()
    assert audited[:2] == [("limit", "sync: 5: they pay"), ("limit", "sync: acme: 0: their API is down")]
    app.limits.set("sync", None)
    assert app.limits()[0].description == "no limit"


def test_the_values_of_a_rate_are_set(app: Treadle, connection: Rows) -> None:
    limit(connection, 10, 1.0)
    app.limits.set("sync", 20, period="1m", burst=40)
    assert app.limits()[0].description == "20 per minute, burst 40"
    app.limits.set("sync", 30)
    assert app.limits()[0].description == "30 per minute, burst 40"


def test_a_limit_is_added_and_removed_at_run_time(app: Treadle, connection: Rows) -> None:
    app.limits.set("api", 10, period="1s", job_type="sync", per="tenant")
    app.limits.set("api", 10, period="1s", queue="slow", per="tenant")
    (row,) = app.limits()
    assert (row.per, row.job_types, row.queues, row.in_code) == ("tenant", ["sync"], ["slow"], False)
    enqueue(connection, 12)
    assert len(claim(connection, 20)) == 10
    assert app.limits.reset("api")
    assert app.limits() == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda limits: limits.set("sync", -1), "the amount of a limit must be an integer from 0 to"),
        (lambda limits: limits.set("sync", True), "the amount of a limit must be an integer"),
        (lambda limits: limits.set("sync", 1, burst=0), "burst must be an integer from 1"),
        (lambda limits: limits.set("sync", 1, period="1s"), "counts the jobs that run at once: it has no period"),
        (lambda limits: limits.set("sync", 1, key="k"), "limit 'sync' has no keys: all its jobs have it together"),
        (lambda limits: limits.reset("sync", "k"), "limit 'sync' has no keys"),
        (lambda limits: limits.set("rate", 1, period=0), "period must be longer than 0, got 0"),
        (lambda limits: limits.set("rate", 1, period="soon"), "period must be a duration such as"),
        (lambda limits: limits.set("rate", 1, burst=2, key="k"), "for one tenant, only the amount of limit 'rate'"),
        (lambda limits: limits.set("rate", None, key="k"), "the amount of limit 'rate' must be a number, got None"),
        (lambda limits: limits.set("new", 1, per="tenant"), "give the job type or the queue that limit 'new' is for"),
        (lambda limits: limits.set("new", 1, queue="q", key="k"), "first add limit 'new' for all keys, then set it"),
        (lambda limits: limits.set("new", 1, queue="q", burst=2), "got burst 2 without a period"),
        (lambda limits: limits.set("sync", 1, queue="q", per="tenant"), "already a limit 'sync', for all its jobs to"),
        (lambda limits: limits.set("rate", 1, queue="q", per="tenant"), "which counts the jobs that start per period"),
        (
            lambda limits: limits.set("turns fair", 2),
            "limit 'turns fair' is about fairness: set the weight of one tenant",
        ),
        (
            lambda limits: limits.set("job types fair", 2),
            "limit 'job types fair' is about fairness: all job types have the same weight",
        ),
        (
            lambda limits: limits.pause("turns fair", "acme"),
            "'turns fair' does not limit which jobs start: pause another limit",
        ),
        (
            lambda limits: limits.set("turns fair", 1, queue="q", per="tenant"),
            "a limit 'turns fair', which is about fairness",
        ),
        (lambda limits: limits.set("", 1), "the name of a limit must be a string of 1 to 100 characters"),
    ],
)
def test_mistakes_are_refused(app: Treadle, connection: Rows, change: Callable[[Any], Any], message: str) -> None:
    limit(connection, 3)
    limit(connection, 3, 1.0, name="rate", per="tenant")
    take_turns(connection, job_type="turns")
    take_turns(connection, "", "")
    with pytest.raises(InvalidArgument) as raised:
        change(app.limits)
    assert message in str(raised.value)
    assert [each.changed_by for each in app.limits()] == [None] * 4


def test_an_unknown_limit_is_an_error_that_names_the_others(app: Treadle, connection: Rows) -> None:
    with pytest.raises(UnknownLimit, match="there is no limit 'nope'; there are: none"):
        app.limits.pause("nope")
    limit(connection, 3)
    limit(connection, 3, name="other")
    for change in (app.limits.pause, app.limits.reset, lambda name: app.limits.set(name, 3)):
        with pytest.raises(UnknownLimit, match="there is no limit 'nope'; there are: other, sync"):
            change("nope")


def test_every_call_has_an_async_twin(app: Treadle, connection: Rows) -> None:
    limit(connection, 2, per="tenant")

    async def body() -> None:
        await app.limits.aset("sync", 5)
        await app.limits.apause("sync", "acme")
        assert [each.amount for each in await app.limits.alist()] == [5, 0]
        assert await app.limits.areset("sync")
        assert await app.limits.areset("sync", "acme")
        with pytest.raises(UnknownLimit):
            await app.limits.aset("nope", 1)
        await app.aclose()

    asyncio.run(body())
    assert [each.amount for each in app.limits()] == [2]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ((3, None, None), "3 at once"),
        ((0, None, None), "0 at once"),
        ((None, None, None), "no limit"),
        ((10, 1.0, 20), "10 per second, burst 20"),
        ((1_000, 60.0, None), "1,000 per minute"),
        ((5, 3600.0, None), "5 per hour"),
        ((5, 86400.0, 1), "5 per day, burst 1"),
        ((5, 90.0, None), "5 per 1m 30s"),
        ((5, 0.5, None), "5 per 0.5s"),
    ],
)
def test_a_limit_in_words(values: tuple[Any, ...], words: str) -> None:
    assert limit_in_words(*values) == words

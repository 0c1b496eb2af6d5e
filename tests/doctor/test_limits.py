"""Findings about limits: paused or lowered and forgotten, too slow for what waits, or not opened."""

from typing import Any

import pytest
from psycopg import Connection

from tests.conftest import Connect
from tests.doctor.test_cost import explained, nodes
from tests.queue.test_limits import claim, enqueue, limit
from tests.support.doctor import AT_ONCE, assert_ok, get_finding
from treadle import JobQueue, Treadle
from treadle.db.examination import examination
from treadle.db.script import drive
from treadle.doctor import Limits, Severity, queries
from treadle.doctor.examine import NotificationTest, examination_steps
from treadle.doctor.facts import UnopenedLimit, WaitingLimit, Worker
from treadle.doctor.finding import Context
from treadle.doctor.rules.limits import check_limits, check_unopened

CONTEXT = Context("treadle", Limits(), "0.1.0")
WAITING = WaitingLimit("sync", None, None, 3, None, True, False, 3, None, None, None, 5, True, 60.0)
UNOPENED = UnopenedLimit("sync", "", 1, 2, 100.0, "id")
WORKER = Worker("w-1", "host", 7, 100.0, 1.0, 10.0, None, ["sync"], None, "0.1.0", False, False)
DAY = 86_400.0


def wait_since(connection: Connection[Any], ago: str) -> None:
    """The jobs that wait have been due for so long. Their lane waits for the limit."""
    with connection.transaction():
        # A trigger would place them above the floor.
        connection.execute("set local session_replication_role = replica")
        connection.execute("update jobs set run_at = now() - %s::interval where status = 'pending'", [ago])
        connection.execute("delete from floors")
    claim(connection)
    claim(connection)


def changed(connection: Connection[Any], ago: str) -> None:
    connection.execute(
        "update limits set changed_at = clock_timestamp() - %s::interval where changed_at is not null", [ago]
    )
    connection.execute(
        "update limit_keys set changed_at = clock_timestamp() - %s::interval where changed_at is not null", [ago]
    )


def register(connection: Connection[Any]) -> None:
    connection.execute("select register_worker('live', '1 hour', '{sync}')")


def test_a_limit_that_was_paused_long_ago_is_found(url: str, app: Treadle, connection: Connection[Any]) -> None:
    limit(connection, 3, per="tenant")
    enqueue(connection, 2, "acme")
    app.limits.pause("sync", "acme", actor="ann")
    wait_since(connection, "3 hours")
    assert_ok(url, "paused_limits")
    changed(connection, "2 hours")
    found = get_finding(url, "paused_limits")
    assert (found.level, found.title) == (Severity.NOTE, "Due jobs wait for a limit that is 0.")
    assert found.detail == ("sync for tenant acme: 2 jobs wait, the oldest for 3h 00m; changed 2h 00m ago by ann")
    assert found.remedy == ("If the pause is no longer needed: select treadle.reset_limit('sync', p_key => 'acme');")
    wait_since(connection, "2 days")
    changed(connection, "2 days")
    assert get_finding(url, "paused_limits").level is Severity.WARNING
    assert_ok(url, "lowered_limits")
    assert_ok(url, "slow_limits")
    connection.execute("select reset_limit('sync', p_key => 'acme')")
    claim(connection)
    assert_ok(url, "paused_limits", AT_ONCE)


def test_a_limit_that_is_paused_for_all_keys_is_undone_for_all(
    url: str, app: Treadle, connection: Connection[Any]
) -> None:
    limit(connection, 3, per="tenant")
    enqueue(connection, 1, "acme")
    app.limits.pause("sync")
    wait_since(connection, "2 days")
    changed(connection, "2 days")
    assert get_finding(url, "paused_limits").remedy.endswith("select treadle.reset_limit('sync');")
    # One that no code declares would be removed by a reset.
    connection.execute("update limits set declared = null")
    assert get_finding(url, "paused_limits").remedy.endswith("select treadle.set_limit('sync', AMOUNT);")


def test_a_limit_that_is_0_in_code_is_found_soon(url: str, connection: Connection[Any]) -> None:
    limit(connection, 0)
    enqueue(connection, 1)
    wait_since(connection, "10 seconds")
    assert_ok(url, "paused_limits")
    wait_since(connection, "5 hours")
    found = get_finding(url, "paused_limits")
    assert (found.level, found.detail) == (Severity.WARNING, "sync: 1 job waits, the oldest for 5h 00m")
    assert found.remedy.startswith("A limit that is 0 in code lets no job start: change the code, or: select ")


def test_a_limit_that_was_lowered_long_ago_is_found(url: str, app: Treadle, connection: Connection[Any]) -> None:
    limit(connection, 3)
    enqueue(connection, 5)
    app.limits.set("sync", 1, actor="ann")
    wait_since(connection, "5 hours")
    changed(connection, "23 hours")
    assert_ok(url, "lowered_limits")
    changed(connection, "2 days")
    found = get_finding(url, "lowered_limits")
    assert (found.level, found.detail) == (
        Severity.NOTE,
        "sync: 1 at once instead of 3 at once; changed 2d 0h ago by ann; 4 jobs wait, the oldest for 5h 00m",
    )
    assert found.remedy == "If they may be as before: select treadle.reset_limit('sync');"
    changed(connection, "8 days")
    assert get_finding(url, "lowered_limits").level is Severity.WARNING
    app.limits.set("sync", 3)
    assert_ok(url, "lowered_limits", AT_ONCE)


@pytest.mark.parametrize(
    ("values", "lower"),
    [
        ({"amount": 2}, True),
        ({"amount": 4}, False),
        ({"amount": 30, "seconds": 60.0, "usual_seconds": 1.0}, True),
        ({"amount": 300, "seconds": 60.0, "usual_seconds": 1.0}, False),
        ({"usual_amount": None}, True),
        ({"amount": 2, "in_code": False}, False),
        ({"amount": 2, "in_code": False, "for_key": True}, True),
        ({"amount": 2, "changed": None}, False),
    ],
)
def test_what_is_lower(values: dict[str, Any], lower: bool) -> None:
    given = WAITING._replace(**{"changed": 2 * DAY, "changed_by": "ann", **values})
    _, found, _ = check_limits(CONTEXT, [given])
    assert (found.level is Severity.NOTE) == lower


def test_a_backlog_that_needs_more_than_a_day_is_found(url: str, connection: Connection[Any]) -> None:
    limit(connection, 100, 3600.0, burst=1)
    connection.execute("select enqueue_jobs('sync', array_fill('{}'::text, '{2500}'))")
    wait_since(connection, "1 minute")
    found = get_finding(url, "slow_limits")
    assert (found.level, found.title) == (Severity.NOTE, "Limits make jobs wait for more than a day.")
    assert found.detail.startswith("sync: at least 2,401 jobs wait, the oldest for 1m 0")
    assert found.detail.endswith("; at 100 per hour they take at least 1d 0h")
    assert found.remedy.startswith("If what the limit protects allows more: select treadle.set_limit('sync', AMOUNT);")
    connection.execute("delete from jobs where id in (select id from jobs where status = 'pending' limit 200)")
    assert_ok(url, "slow_limits")


def test_a_job_that_has_waited_for_a_limit_for_days_is_found(url: str, connection: Connection[Any]) -> None:
    limit(connection, 1)
    enqueue(connection, 3)
    wait_since(connection, "23 hours")
    assert_ok(url, "slow_limits")
    wait_since(connection, "4 days")
    found = get_finding(url, "slow_limits")
    assert (found.level, found.detail) == (Severity.WARNING, "sync: 2 jobs wait, the oldest for 4d 0h")


def test_a_rate_is_not_to_blame_if_its_jobs_wait_for_something_else() -> None:
    waiting = WAITING._replace(amount=6, seconds=60.0, due=9 * DAY)
    assert check_limits(CONTEXT, [waiting])[2].level is Severity.OK
    assert check_limits(CONTEXT, [waiting._replace(exact=False)])[2].level is Severity.WARNING


def test_a_statement_is_given_once() -> None:
    keys = [WAITING._replace(per="tenant", key=each, due=2 * DAY) for each in ("acme", "globex")]
    remedy = check_limits(CONTEXT, keys)[2].remedy
    assert remedy.count("set_limit('sync', AMOUNT)") == 1


def test_lanes_of_different_partitions_are_one(url: str, connection: Connection[Any]) -> None:
    limit(connection, 1, per="tenant")
    for tenant in ("acme", "globex", "zed"):
        enqueue(connection, 1, tenant)
    wait_since(connection, "5 hours")
    enqueue(connection, 1, "acme")
    enqueue(connection, 1, "globex")
    found = get_finding(url, "unserved_lanes", AT_ONCE)
    assert len([line for line in found.detail.splitlines() if line.startswith("sync")]) == 1


def test_lanes_that_nobody_opens_are_found(url: str, connect: Connect) -> None:
    connection = connect()
    limit(connection, 1)
    enqueue(connection, 3)
    (first,) = claim(connection)
    wait_since(connection, "10 minutes")
    register(connection)
    connection.execute("update lanes set changed_at = now() - interval '10 minutes'")
    assert_ok(url, "unopened_limits")  # it is reached
    # A job ends in a way that notes no opening.
    connection.execute("set session_replication_role = replica")
    connection.execute("update jobs set status = 'completed', finished_at = now() where id = %s", [first[0]])
    found = get_finding(url, "unopened_limits")
    waiting = connection.execute("select id from jobs where status = 'pending' order by run_at, id").fetchall()
    assert (found.level, found.title) == (
        Severity.WARNING,
        "Jobs wait for limits that have room, and no worker claims them.",
    )
    assert found.detail.startswith("sync: jobs of 1 combination of queue, type and priority have waited for 10m 0")
    assert any(str(each[0]) in found.detail for each in waiting)
    connection.execute("update limits set amount = 0")
    assert_ok(url, "unopened_limits")
    connection.execute("update limits set amount = 1")
    # The remedy helps.
    connection.execute(found.remedy.partition("To let workers claim them: ")[2].partition("\n")[0].encode())
    assert_ok(url, "unopened_limits")
    assert len(claim(connection)) == 1
    assert claim(connection) == []
    connection.execute("update lanes set changed_at = now() - interval '10 minutes'")
    connection.execute("update jobs set status = 'completed', finished_at = now() where status = 'claimed'")
    assert get_finding(url, "unopened_limits").level is Severity.WARNING
    connection.execute("delete from workers")
    assert_ok(url, "unopened_limits")  # without workers, that is no surprise


def test_a_tick_opens_them(url: str, connection: Connection[Any]) -> None:
    limit(connection, 1)
    enqueue(connection, 3)
    (first,) = claim(connection)
    wait_since(connection, "10 minutes")
    register(connection)
    connection.execute("update jobs set status = 'completed' where id = %s", [first[0]])
    connection.execute("update lanes set changed_at = now() - interval '10 minutes'")
    connection.execute("update limit_openings set opens_at = now() - interval '1 minute'")
    connection.execute("select tick('0')")
    assert_ok(url, "unopened_limits")


@pytest.mark.parametrize("used", [False, True])
def test_a_limit_that_is_used_between_two_looks_is_not_reported(
    app: Treadle, connection: Connection[Any], used: bool
) -> None:
    limit(connection, 2)
    enqueue(connection, 3)
    claim(connection)
    wait_since(connection, "10 minutes")
    register(connection)
    connection.execute("set session_replication_role = replica")
    connection.execute("update jobs set status = 'completed', finished_at = now() where status = 'claimed'")
    connection.execute("set session_replication_role = origin")
    connection.execute("delete from limit_openings")
    connection.execute("update lanes set changed_at = now() - interval '10 minutes'")
    looks = 0

    def carry_out(request: Any) -> Any:
        nonlocal looks
        if isinstance(request, NotificationTest):
            return True
        if request.text == queries.wait(0).text:
            looks += 1
            if used:  # the lane stays dormant, and the limit has room for another one
                connection.execute(
                    """insert into limit_holders (name, key, version, full_at)
                    select name, key, version + 1, full_at from limit_holders order by version desc limit 1"""
                )
            return None
        return run(request)

    with examination(app.database) as run:
        found = {each.name: each.level for each in drive(examination_steps("treadle", Limits()), carry_out)}
    assert looks == 1
    assert found["unopened_limits"] is (Severity.OK if used else Severity.WARNING)


def test_what_shows_that_a_limit_is_used() -> None:
    """A claim changes the version, and a tick opens lanes. Without workers, nobody does."""
    assert UNOPENED.id == UNOPENED._replace(seconds=105.0).id
    assert UNOPENED.id != UNOPENED._replace(version=2).id
    assert UNOPENED.id != UNOPENED._replace(lanes=1).id
    (found,) = check_unopened(CONTEXT, [WORKER], [UNOPENED])
    assert found.level is Severity.NOTE
    (found,) = check_unopened(CONTEXT, [WORKER._replace(lease=None)], [UNOPENED])
    assert found.level is Severity.OK


def test_workers_are_not_stalled_if_jobs_wait_for_a_limit(
    url: str, queue: JobQueue, connection: Connection[Any]
) -> None:
    limit(connection, 1)
    enqueue(connection, 3)
    claim(connection, worker="busy")
    wait_since(connection, "10 minutes")
    register(connection)
    connection.execute(
        """update workers set concurrency = 5, version = '0.1.0', host = 'h', pid = 1,
        started_at = now() - interval '1 hour'"""
    )
    assert_ok(url, "stalled_workers")
    connection.execute("update lanes set dormant_xid = null, limit_name = null, limit_key = null")
    assert get_finding(url, "stalled_workers").level is Severity.WARNING


def test_line_breaks_in_names_add_no_line() -> None:
    hostile = WAITING._replace(
        name="a\nb", per="c\nd", key="e\nf", amount=0, changed=9 * DAY, changed_by="g\nh", due=9 * DAY, for_key=True
    )
    paused, *_ = check_limits(CONTEXT, [hostile])
    assert paused.detail.splitlines() == [
        "a b for c d e f: 5 jobs wait, the oldest for 9d 0h; changed 9d 0h ago by g h"
    ]
    assert len(paused.remedy.splitlines()) == 1
    slow = check_limits(CONTEXT, [hostile._replace(amount=1)])[2]
    assert (len(slow.detail.splitlines()), len(slow.remedy.splitlines())) == (1, 2)
    (unopened,) = check_unopened(CONTEXT, [WORKER], [UNOPENED._replace(name="a\nb", key="c\nd")])
    assert (len(unopened.detail.splitlines()), len(unopened.remedy.splitlines())) == (1, 2)


@pytest.mark.fresh_database
def test_the_cost_does_not_grow_with_the_number_of_keys_and_jobs(connection: Connection[Any]) -> None:
    limit(connection, 1, 3600.0, per="tenant")
    connection.execute("set session_replication_role = replica")
    park = """insert into lanes (queue, job_type, priority, partition, limit_name, limit_key, dormant_xid, changed_at)
        select 'default', 'sync', 100, format('{"tenant": "t%%s"}', nth), 'sync', 't' || nth, '3',
            now() - interval '1 hour'
        from generate_series(%s::int, %s::int) as nth"""
    fill = """insert into jobs (id, job_type, partition, data, run_at)
        select new_id(), 'sync', format('{"tenant": "t%%s"}', nth %% 10000), '{}', now() - interval '1 day'
        from generate_series(1, %s) as nth"""

    def cost() -> int:
        connection.execute("vacuum analyze jobs, lanes")
        chosen = [queries.schema_queries(Limits())[name] for name in ("waiting_limits", "unopened_limits")]
        plans = [explained(connection, each) for each in chosen]
        for node in (node for plan in plans for node in nodes(plan) if node.get("Relation Name") == "jobs"):
            assert node["Node Type"] in ("Index Scan", "Index Only Scan"), node
        return sum(int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]) for plan in plans)

    connection.execute(park, [0, 299])
    connection.execute(fill, [10_000])
    few = cost()
    connection.execute(park, [300, 9999])
    connection.execute(fill, [40_000])
    many = cost()
    assert many < 2 * few + 1000, (few, many)
    assert many < 20_000

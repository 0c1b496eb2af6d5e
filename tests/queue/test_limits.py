"""Limits in SQL: how many jobs run at once, or start per period, for all workers together."""

import json
import time
from typing import Any

import pytest
from psycopg import Connection, errors

from tests.conftest import Connect

Rows = Connection[Any]


def limit(connection: Rows, amount: int | None, seconds: float | None = None, **values: Any) -> None:
    """Declare a limit of the job type "sync"."""
    declared = {
        "name": "sync",
        "kind": "pending" if "when_full" in values else "concurrency" if seconds is None else "rate",
        "per": "",
        "amount": amount,
        "seconds": seconds,
        "burst": None,
        "job_types": ["sync"],
        **values,
    }
    declared["digest"] = json.dumps(declared)
    connection.execute("select declare_limits(%s)", [json.dumps([declared])])


def take_turns(
    connection: Rows, fair_by: str = "tenant", job_type: str = "sync", weights_of: str | None = None
) -> None:
    """Declare that values of an argument take turns; with nothing, that job types do."""
    weights_of = job_type if weights_of is None else weights_of
    _declare_setting(connection, {"job_type": job_type, "fair_by": fair_by, "weights_of": weights_of})


def aging(connection: Rows, share: int = 10, seconds: float = 3600) -> None:
    """Declare that jobs that have waited for so long get so many of a hundred claims."""
    _declare_setting(connection, {"job_type": "", "aging_seconds": seconds, "aging_share": share})


def _declare_setting(connection: Rows, setting: dict[str, Any]) -> None:
    setting["digest"] = json.dumps(setting)
    connection.execute("select declare_limits('[]', %s)", [json.dumps([setting])])


def enqueue(connection: Rows, count: int = 1, tenant: str = "acme", **options: Any) -> None:
    data = [json.dumps({"tenant": tenant, "nth": nth}) for nth in range(count)]
    connection.execute("select enqueue_with_options('sync', %s, %s)", [data, json.dumps(options)])


def claim(connection: Rows, count: int = 10, worker: str = "w", types: str = "{sync}") -> list[Any]:
    rows = connection.execute(
        "select id, data ->> 'tenant', (data ->> 'nth')::int from claim_jobs(%s, %s, %s)", [worker, types, count]
    )
    return rows.fetchall()


def complete(connection: Rows, *rows: Any) -> None:
    connection.execute("update jobs set status = 'completed' where id = any (%s)", [[row[0] for row in rows]])


def running(connection: Rows) -> int:
    row = connection.execute("select count(*) from jobs where status in ('claimed', 'running')").fetchone()
    assert row
    return int(row[0])


def waiting_lanes(connection: Rows) -> int:
    row = connection.execute("select count(*) from lanes where limit_name is not null").fetchone()
    assert row
    return int(row[0])


def test_no_more_run_at_once_than_the_limit_allows(connection: Rows) -> None:
    limit(connection, 3)
    enqueue(connection, 10)
    first = claim(connection)
    assert [row[2] for row in first] == [0, 1, 2]
    assert claim(connection) == []
    complete(connection, first[0])
    assert [row[2] for row in claim(connection)] == [3]
    assert claim(connection) == []


def test_each_value_of_an_argument_has_the_limit_for_itself(connection: Rows) -> None:
    limit(connection, 2, per="tenant")
    enqueue(connection, 5, "acme")
    enqueue(connection, 5, "globex")
    rows = claim(connection)
    assert sorted((row[1], row[2]) for row in rows) == [("acme", 0), ("acme", 1), ("globex", 0), ("globex", 1)]
    complete(connection, *[row for row in rows if row[1] == "globex"])
    assert sorted((row[1], row[2]) for row in claim(connection)) == [("globex", 2), ("globex", 3)]


def test_several_limits_at_once(connection: Rows) -> None:
    limit(connection, 3)
    limit(connection, 2, per="tenant", name="sync per tenant")
    enqueue(connection, 5, "acme")
    enqueue(connection, 5, "globex")
    rows = claim(connection)
    assert len(rows) == 3
    assert max([row[1] for row in rows].count(tenant) for tenant in ("acme", "globex")) == 2
    for _ in range(20):
        if not rows:
            break
        complete(connection, rows[0])
        rows = rows[1:] + claim(connection)
        assert len(rows) <= 3
    assert connection.execute("select count(*) from jobs where status = 'completed'").fetchone() == (10,)


def test_a_lane_that_waits_is_dormant_until_its_limit_has_room(connection: Rows) -> None:
    limit(connection, 1)
    enqueue(connection, 3)
    (first,) = claim(connection)
    assert waiting_lanes(connection) == 0
    assert claim(connection) == []
    assert waiting_lanes(connection) == 1
    complete(connection, first)
    (second,) = claim(connection)
    assert claim(connection) == []
    complete(connection, second)
    (third,) = claim(connection)
    complete(connection, third)
    assert claim(connection) == []


@pytest.mark.parametrize(
    "end",
    [
        "update jobs set status = 'completed' where id = %s",
        "update jobs set status = 'failed' where id = %s",
        "update jobs set status = 'cancelled' where id = %s",
        "select release_job(%s, '1 hour')",
        "select fail_job(%s, 'broken', '1 hour')",
        "delete from jobs where id = %s",
        "update jobs set status = 'pending', run_at = now() + interval '1 hour' where id = %s",
    ],
)
def test_a_slot_comes_back_with_its_job(connection: Rows, end: str) -> None:
    limit(connection, 1)
    enqueue(connection, 2)
    (first,) = claim(connection)
    assert claim(connection) == []
    connection.execute(end, [first[0]])
    assert [row[2] for row in claim(connection)] == [1]


def test_a_slot_comes_back_when_the_worker_is_lost(connection: Rows) -> None:
    limit(connection, 1)
    enqueue(connection, 2)
    connection.execute("select register_worker('w', '1 minute', '{sync}')")
    (first,) = claim(connection)
    assert claim(connection, worker="other") == []
    connection.execute("select recover_worker('w', 'killed')")
    # It returned to its old place, before the other one.
    assert claim(connection, worker="other") == [first]


def test_a_change_without_triggers_is_noticed(connection: Rows) -> None:
    limit(connection, 1)
    enqueue(connection, 2)
    (first,) = claim(connection)
    assert claim(connection) == []
    connection.execute("set session_replication_role = replica")
    connection.execute("update jobs set status = 'completed', finished_at = now() where id = %s", [first[0]])
    connection.execute("reset session_replication_role")
    deadline = time.monotonic() + 5
    while not (rows := claim(connection)):
        assert time.monotonic() < deadline
        connection.execute("select tick('0')")
    assert [row[2] for row in rows] == [1]


def test_other_jobs_are_claimed_in_their_order(connection: Rows) -> None:
    limit(connection, 1)
    enqueue(connection, 5, priority=150)
    connection.execute("select enqueue('other', '{\"nth\": 100}')")
    rows = claim(connection, types="{sync,other}")
    assert [row[2] for row in rows] == [0, 100]


def test_priorities_hold_within_a_limit(connection: Rows) -> None:
    limit(connection, 1)
    enqueue(connection, 2, priority=30)
    (first,) = claim(connection)
    assert claim(connection) == []
    enqueue(connection, 1, "late", priority=150)
    assert claim(connection) == []
    complete(connection, first)
    assert [row[1] for row in claim(connection)] == ["late"]


def test_two_claims_and_one_slot(connect: Connect, connection: Rows) -> None:
    limit(connection, 1)
    enqueue(connection, 5)
    one, two = connect(), connect()
    with one.transaction():
        assert len(claim(one)) == 1
        # It does not wait for the other one, and takes nothing.
        assert claim(two) == []
    assert claim(two) == []
    assert running(connection) == 1


def test_a_claim_that_is_rolled_back_leaves_its_slot(connect: Connect, connection: Rows) -> None:
    limit(connection, 1)
    enqueue(connection, 5)
    one = connect()
    with one.transaction(force_rollback=True):
        assert len(claim(one)) == 1
    assert len(claim(connection)) == 1


def test_weights(connection: Rows) -> None:
    limit(connection, 5)
    enqueue(connection, 2, "light")
    enqueue(connection, 1, "heavy", weight=4)
    enqueue(connection, 3, "late")
    rows = claim(connection)
    # The heavy one does not fit, and nobody overtakes it.
    assert [row[1] for row in rows] == ["light", "light"]
    assert claim(connection) == []
    complete(connection, rows[0])
    assert [row[1] for row in claim(connection)] == ["heavy"]
    assert claim(connection) == []
    complete(connection, rows[1])
    assert [row[1] for row in claim(connection)] == ["late"]


def test_a_job_that_is_heavier_than_the_limit_runs_alone(connection: Rows) -> None:
    limit(connection, 2)
    enqueue(connection, 1, "light")
    enqueue(connection, 1, "heavy", weight=10)
    (light,) = claim(connection)
    assert claim(connection) == []
    complete(connection, light)
    assert [row[1] for row in claim(connection)] == ["heavy"]


def test_rate(connection: Rows) -> None:
    """Ten at once, then one every 100 ms."""
    limit(connection, 10, 1.0)
    enqueue(connection, 25)
    begin = time.monotonic()
    assert len(claim(connection, 25)) == 10
    taken = 10
    while taken < 13:
        taken += len(claim(connection, 25))
        assert taken <= 10 + (time.monotonic() - begin) * 10 + 1
    assert time.monotonic() - begin > 0.25


def test_smooth_rate(connection: Rows) -> None:
    limit(connection, 10, 1.0, burst=1)
    enqueue(connection, 5)
    begin = time.monotonic()
    assert len(claim(connection)) == 1
    assert claim(connection) == []
    while not claim(connection):
        pass
    assert 0.09 < time.monotonic() - begin < 30


def test_a_worker_is_told_when_the_next_may_start(connection: Rows) -> None:
    limit(connection, 2, 10.0)
    enqueue(connection, 5)
    claim(connection)
    assert claim(connection) == []
    row = connection.execute("select next_due('{sync}')").fetchone()
    assert row
    assert 4 < row[0] <= 5


def test_zero_is_a_pause_and_a_higher_limit_opens(connection: Rows) -> None:
    limit(connection, 2, per="tenant")
    enqueue(connection, 3, "acme")
    enqueue(connection, 3, "globex")
    assert connection.execute("select set_limit('sync', 0, p_key => 'acme')").fetchone() == (True,)
    assert {row[1] for row in claim(connection)} == {"globex"}
    connection.execute("select set_limit('sync', 3, p_key => 'acme')")
    assert [row[1] for row in claim(connection)] == ["acme"] * 3
    assert connection.execute("select reset_limit('sync', 'acme')").fetchone() == (True,)


def test_what_an_operator_changed_stays_until_it_is_reset(connection: Rows) -> None:
    limit(connection, 1)
    connection.execute("select set_limit('sync', 2)")
    limit(connection, 5)
    amount = "select amount from limits"
    assert connection.execute(amount).fetchone() == (2,)
    connection.execute("select reset_limit('sync')")
    assert connection.execute(amount).fetchone() == (5,)


@pytest.mark.parametrize(
    "wrong",
    [
        "kind = 'other'",
        "kind = 'rate'",
        "kind = 'pending'",
        "period = '1 s'",
        "when_full = 'refuse'",
        "burst = 2",
    ],
)
def test_a_limit_has_the_values_of_its_kind(connection: Rows, wrong: str) -> None:
    limit(connection, 3)
    with pytest.raises(errors.CheckViolation, match="valid_kind"):
        connection.execute(f"update limits set {wrong}")


def test_what_an_operator_changed_ends_when_code_makes_it_another_kind(connection: Rows) -> None:
    limit(connection, 3)
    connection.execute("select set_limit('sync', 5)")
    limit(connection, 4)
    assert in_force(connection) == ("concurrency", 5, None, "postgres")
    limit(connection, 7, 60.0)
    assert in_force(connection) == ("rate", 7, 60, None)
    connection.execute("select set_limit('sync', 2, interval '5 s')")
    connection.execute("select reset_limit('sync')")
    assert in_force(connection) == ("rate", 7, 60, None)


def test_a_change_by_sql_keeps_the_values_of_the_kind(connection: Rows) -> None:
    limit(connection, 3)
    limit(connection, 3, name="mail", when_full="refuse", job_types=["mail"])
    connection.execute("select set_limit('sync', 5, interval '1 s', p_burst => 2)")
    connection.execute("select set_limit('mail', 7, interval '1 s', p_burst => 2)")
    connection.execute("select set_limit('mail', 8, interval '1 s', p_burst => 2, p_queue => 'mail')")
    connection.execute("select set_limit('added', 9, p_burst => 2, p_queue => 'mail')")
    rows = connection.execute("select kind, amount, period, burst, when_full from limits order by amount").fetchall()
    assert rows == [
        ("concurrency", 5, None, None, None),
        ("pending", 8, None, None, "refuse"),
        ("concurrency", 9, None, None, None),
    ]


def in_force(connection: Rows) -> Any:
    return connection.execute("select kind, amount, extract(epoch from period)::int, changed_by from limits").fetchone()


def test_what_starts_under_a_rate_without_an_amount_is_not_listed(connection: Rows) -> None:
    limit(connection, 1, 3600.0)
    connection.execute("select set_limit('sync', null)")
    enqueue(connection, 30)
    assert [len(claim(connection)) for _ in range(3)] == [10, 10, 10]
    (rows,) = connection.execute("select sum(cardinality(jobs)) from limit_holders").fetchone() or (None,)
    assert rows == 0
    connection.execute("select set_limit('sync', 3)")
    enqueue(connection, 10)
    assert len(claim(connection)) == 3


def test_jobs_inserted_by_hand_are_limited(connection: Rows) -> None:
    limit(connection, 1, per="tenant")
    connection.execute(
        """insert into jobs (job_type, data)
        select 'sync', jsonb_build_object('tenant', 'acme', 'nth', nth) from generate_series(0, 3) as nth"""
    )
    assert [row[2] for row in claim(connection)] == [0]
    assert claim(connection) == []


def test_jobs_inserted_by_hand_one_by_one_are_limited(connection: Rows) -> None:
    limit(connection, 1, per="tenant")
    for nth, tenant in enumerate(["acme", "acme", "zeta"]):
        connection.execute(
            "insert into jobs (job_type, data) values ('sync', jsonb_build_object('tenant', %s::text, 'nth', %s::int))",
            [tenant, nth],
        )
    assert [row[2] for row in claim(connection)] == [0, 2]
    assert claim(connection) == []


def test_a_paused_rate_starts_nothing(connection: Rows) -> None:
    limit(connection, 10, 1.0, burst=5)
    enqueue(connection, 20)
    connection.execute("select set_limit('sync', 0)")
    assert claim(connection) == []


def test_a_limit_with_two_targets_counts_a_job_once(connection: Rows) -> None:
    connection.execute("select set_limit('x', 4, p_job_type => 'sync')")
    connection.execute("select set_limit('x', 4, p_queue => 'default')")
    enqueue(connection, 10)
    assert len(claim(connection)) == 4


def test_jobs_that_wait_already_get_their_partition(connection: Rows) -> None:
    enqueue(connection, 3, "acme")
    enqueue(connection, 3, "globex")
    connection.execute("select set_limit('x', 1, p_job_type => 'sync', p_per => 'tenant')")
    assert sorted(row[1] for row in claim(connection)) == ["acme", "globex"]


def test_nothing_waits_for_a_limit_that_was_removed(connection: Rows) -> None:
    connection.execute("select set_limit('x', 1, p_job_type => 'sync', p_per => 'tenant')")
    connection.execute("select set_limit('y', 1000, p_job_type => 'sync')")
    connection.execute("select set_limit('x', 0, p_key => 'acme')")
    for priority in range(30):
        enqueue(connection, 1, "acme", priority=priority)
    for _ in range(5):
        assert claim(connection) == []
    assert waiting_lanes(connection) == 30
    connection.execute("select reset_limit('x')")
    deadline = time.monotonic() + 20
    claimed = 0
    while claimed < 30:
        assert time.monotonic() < deadline
        claimed += len(claim(connection))
        connection.execute("select tick('0')")
    assert connection.execute("select count(*) from limit_keys where name = 'x'").fetchone() == (0,)


def test_the_list_of_jobs_that_use_a_limit_stays_short(connection: Rows) -> None:
    limit(connection, 20_000)
    enqueue(connection, 1500)
    for _ in range(30):
        complete(connection, *claim(connection, 50))
    row = connection.execute("select max(cardinality(jobs)) from limit_holders").fetchone()
    assert row
    assert row[0] <= 300


def test_keys_that_nobody_uses_are_forgotten(connection: Rows) -> None:
    limit(connection, 1, per="tenant")
    for nth in range(20):
        enqueue(connection, 1, f"tenant-{nth}")
    rows = claim(connection, 20)
    complete(connection, *rows[1:])
    connection.execute("select forget_limit_keys(clock_timestamp())")
    assert connection.execute("select count(*) from limit_keys").fetchone() == (1,)
    assert connection.execute("select count(*) from limit_holders").fetchone() == (1,)


def test_a_claim_that_began_before_a_rate_was_full_finds_it_as_it_was(connection: Rows) -> None:
    limit(connection, 100, 1.0, burst=10)
    enqueue(connection, 30)
    began = connection.execute("select clock_timestamp()").fetchone()
    assert began
    assert len(claim(connection, 10)) == 10
    time.sleep(0.12)
    connection.execute("select forget_limit_keys(clock_timestamp())")
    room = connection.execute(
        """select room from lock_limits(%s, array[row('default', 'sync', 100, '')::lane], false, '{10}')""", began
    ).fetchone()
    assert room == ([0],)
    connection.execute("select forget_limit_keys(clock_timestamp() + interval '2 minutes')")
    assert connection.execute("select count(*) from limit_holders").fetchone() == (0,)

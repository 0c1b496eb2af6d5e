"""Fairness: the values of an argument take turns."""

from collections import Counter
from typing import Any

import pytest
from psycopg import Connection

from tests.queue.test_limits import claim, enqueue, limit, take_turns

Rows = Connection[Any]


def finish(connection: Rows, batch: int, rounds: int, types: str = "{sync}") -> Counter[str]:
    """Claim and complete; how many jobs of each tenant."""
    found: Counter[str] = Counter()
    for _ in range(rounds):
        rows = claim(connection, batch, types=types)
        found.update(row[1] for row in rows)
        connection.execute("update jobs set status = 'completed' where status = 'claimed'")
    return found


@pytest.mark.parametrize("batch", [pytest.param(1, marks=pytest.mark.long), 7, 50])
def test_a_large_tenant_does_not_starve_small_ones(connection: Rows, batch: int) -> None:
    take_turns(connection)
    enqueue(connection, 3000, "big")
    for nth in range(20):
        enqueue(connection, 10, f"small-{nth}")
    found = finish(connection, batch, 220 // batch + 5)
    assert all(found[f"small-{nth}"] == 10 for nth in range(20)) or found["big"] < 3000 * 0.05
    found += finish(connection, 200, 4)
    assert all(found[f"small-{nth}"] == 10 for nth in range(20))
    # What nobody else needs goes to the large one.
    assert sum(found.values()) >= 800


@pytest.mark.parametrize("batch", [pytest.param(1, marks=pytest.mark.long), 10, 100])
def test_weights_of_tenants(connection: Rows, batch: int) -> None:
    take_turns(connection)
    for nth in range(1, 11):
        enqueue(connection, 400, f"tenant-{nth}")
        connection.execute("select set_limit('sync fair', %s, p_key => %s)", [nth, f"tenant-{nth}"])
    found = finish(connection, batch, 1100 // batch)
    total = sum(found.values())
    for nth in range(1, 11):
        assert found[f"tenant-{nth}"] == pytest.approx(total * nth / 55, rel=0.1, abs=2)


@pytest.mark.parametrize("limited", [False, True])
def test_a_tenant_of_weight_0_is_served_when_there_are_no_others(connection: Rows, limited: bool) -> None:
    """Others take what a third one does not need."""
    take_turns(connection)
    if limited:
        limit(connection, 50, per="tenant")
    for tenant, count in (("acme", 20), ("globex", 2), ("initech", 20)):
        enqueue(connection, count, tenant)
    connection.execute("select set_limit('sync fair', 0, p_key => 'acme')")
    assert finish(connection, 10, 1) == {"globex": 2, "initech": 8}
    assert finish(connection, 12, 1) == {"initech": 12}
    assert finish(connection, 10, 3) == {"acme": 20}


def test_what_a_tenant_does_not_need_goes_to_the_others(connection: Rows) -> None:
    take_turns(connection)
    enqueue(connection, 300, "big")
    for nth in range(20):
        enqueue(connection, 1, f"small-{nth}")
    assert finish(connection, 100, 1) == {"big": 80, **{f"small-{nth}": 1 for nth in range(20)}}
    assert finish(connection, 100, 1) == {"big": 100}


@pytest.mark.parametrize("limited", [False, True])
def test_types_without_turns_are_claimed_beside_one_with_turns(connection: Rows, limited: bool) -> None:
    take_turns(connection)
    if limited:
        limit(connection, 1, per="tenant")
    connection.execute("select enqueue_jobs('other', array_fill('{\"tenant\": \"other\"}'::text, '{50}'))")
    assert finish(connection, 10, 1, "{sync,other}") == {"other": 10}
    connection.execute("select enqueue('another', '{\"tenant\": \"another\"}')")
    enqueue(connection, 1, "acme")
    found = finish(connection, 45, 1, "{sync,other,another}")
    assert found == {"other": 40, "another": 1, "acme": 1}


def test_the_order_within_a_tenant_stays(connection: Rows) -> None:
    take_turns(connection)
    enqueue(connection, 50, "acme")
    enqueue(connection, 50, "globex")
    seen: dict[str, list[int]] = {}
    for _ in range(10):
        for _, tenant, nth in claim(connection, 10):
            seen.setdefault(tenant, []).append(nth)
    assert seen["acme"] == sorted(seen["acme"]) == list(range(50))
    assert seen["globex"] == sorted(seen["globex"])


def test_without_fairness_the_oldest_is_first(connection: Rows) -> None:
    enqueue(connection, 50, "big")
    enqueue(connection, 5, "small")
    assert finish(connection, 50, 1) == {"big": 50}


def test_job_types_take_turns(connection: Rows) -> None:
    take_turns(connection, "", "")
    enqueue(connection, 500, "sync")
    connection.execute("select enqueue_jobs('other', array_fill('{\"tenant\": \"other\"}'::text, '{50}'))")
    found = finish(connection, 10, 10, "{sync,other}")
    assert found == {"sync": 50, "other": 50}


def test_weights_hold_for_aliases(connection: Rows) -> None:
    for job_type in ("sync", "alias"):
        take_turns(connection, job_type=job_type, weights_of="sync")
    connection.execute("select set_limit('sync fair', 3, p_key => 'acme')")
    assert connection.execute("select set_limit('alias fair', 3, p_key => 'acme')").fetchone() == (False,)
    for tenant in ("acme", "globex"):
        data = f'{{"tenant": "{tenant}"}}'
        connection.execute("select enqueue_jobs('alias', array_fill(%s::text, '{400}'))", [data])
    found = finish(connection, 40, 5, "{alias}")
    assert found["acme"] == pytest.approx(150, abs=3)
    rows = connection.execute("select name, key, job_types, amount from find_limits() order by key").fetchall()
    assert rows == [("sync fair", "acme", ["alias", "sync"], 3), ("sync fair", None, ["alias", "sync"], None)]


def test_what_nobody_declares_any_more_is_removed(connection: Rows) -> None:
    take_turns(connection)
    connection.execute("select set_limit('sync fair', 3, p_key => 'acme')")
    connection.execute("update type_settings set declared_at = now() - interval '9 minutes'")
    connection.execute("select declare_limits('[]')")
    assert finish_share(connection) == pytest.approx(30, abs=2)
    connection.execute("update type_settings set declared_at = now() - interval '11 minutes'")
    connection.execute("select declare_limits('[]')")
    for table in ("type_settings", "fair_weights", "limit_targets"):
        assert connection.execute(f"select count(*) from {table}").fetchone() == (0,)
    assert finish_share(connection) == 40


def finish_share(connection: Rows) -> int:
    """How many jobs of acme are among 40, if it has enqueued 100 before another."""
    connection.execute("delete from jobs")
    enqueue(connection, 100, "acme")
    enqueue(connection, 100, "globex")
    return finish(connection, 40, 1)["acme"]


def test_fairness_and_a_limit_together(connection: Rows) -> None:
    take_turns(connection)
    limit(connection, 4)
    enqueue(connection, 300, "big")
    for nth in range(10):
        enqueue(connection, 4, f"small-{nth}")
    found = finish(connection, 10, 35)
    assert sum(found.values()) == 35 * 4
    assert sum(found[f"small-{nth}"] for nth in range(10)) == 40

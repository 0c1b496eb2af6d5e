"""Fairness: the values of an argument take turns."""

import json
from collections import Counter
from typing import Any

import pytest
from psycopg import Connection

from tests.queue.test_limits import claim, enqueue

Rows = Connection[Any]


def fair(connection: Rows, per: str = "tenant", name: str = "sync fair", **values: Any) -> None:
    declared = {"name": name, "per": per, "fair": True, "digest": name, "job_types": ["sync"], **values}
    connection.execute("select declare_limits(%s)", [json.dumps([declared])])


def finish(connection: Rows, batch: int, rounds: int, types: str = "{sync}") -> Counter[str]:
    """Claim and complete; how many jobs of each tenant."""
    found: Counter[str] = Counter()
    for _ in range(rounds):
        rows = claim(connection, batch, types=types)
        found.update(row[1] for row in rows)
        connection.execute("update jobs set status = 'completed' where status = 'claimed'")
    return found


@pytest.mark.parametrize("batch", [1, 7, 50])
def test_a_large_tenant_does_not_starve_small_ones(connection: Rows, batch: int) -> None:
    fair(connection)
    enqueue(connection, 3000, "big")
    for nth in range(20):
        enqueue(connection, 10, f"small-{nth}")
    found = finish(connection, batch, 220 // batch + 5)
    assert all(found[f"small-{nth}"] == 10 for nth in range(20)) or found["big"] < 3000 * 0.05
    found += finish(connection, 200, 4)
    assert all(found[f"small-{nth}"] == 10 for nth in range(20))
    # What nobody else needs goes to the large one.
    assert sum(found.values()) >= 800


@pytest.mark.parametrize("batch", [1, 10, 100])
def test_weights_of_tenants(connection: Rows, batch: int) -> None:
    fair(connection)
    for nth in range(1, 11):
        enqueue(connection, 400, f"tenant-{nth}")
        connection.execute("select set_limit('sync fair', %s, p_key => %s)", [nth, f"tenant-{nth}"])
    found = finish(connection, batch, 1100 // batch)
    total = sum(found.values())
    for nth in range(1, 11):
        assert found[f"tenant-{nth}"] == pytest.approx(total * nth / 55, rel=0.1, abs=2)


def test_the_order_within_a_tenant_stays(connection: Rows) -> None:
    fair(connection)
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
    fair(connection, "", "types", job_types=[""])
    enqueue(connection, 500, "sync")
    connection.execute("select enqueue_jobs('other', array_fill('{\"tenant\": \"other\"}'::text, '{50}'))")
    found = finish(connection, 10, 10, "{sync,other}")
    assert found == {"sync": 50, "other": 50}


def test_fairness_and_a_limit_together(connection: Rows) -> None:
    fair(connection)
    limit = {"name": "all", "per": "", "amount": 4, "digest": "all", "job_types": ["sync"]}
    connection.execute("select declare_limits(%s)", [json.dumps([limit])])
    enqueue(connection, 300, "big")
    for nth in range(10):
        enqueue(connection, 4, f"small-{nth}")
    found = finish(connection, 10, 35)
    assert sum(found.values()) == 35 * 4
    assert sum(found[f"small-{nth}"] for nth in range(10)) == 40

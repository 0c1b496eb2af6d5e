"""The clock of the server is set forward and back by up to a day: no job is lost or late, and keys keep their order."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from psycopg import Connection

from tests.support.clocked_server import DAY, JUMPS, NEEDS_LIBRARY, ClockedServer, running_server

pytestmark = NEEDS_LIBRARY

ISOLATION = pytest.mark.parametrize("isolation", ["read committed", "repeatable read", "serializable"])


@pytest.fixture(scope="module")
def module_server() -> Iterator[ClockedServer]:
    with running_server() as server:
        yield server


@pytest.fixture
def server(module_server: ClockedServer) -> ClockedServer:
    module_server.reset()
    return module_server


def connect(server: ClockedServer, isolation: str) -> Connection[Any]:
    connection = server.server.connect()
    connection.autocommit = False
    connection.execute(f"set transaction isolation level {isolation}".encode())
    return connection


# Jobs that are due now


@JUMPS
def test_a_job_from_before_a_jump_is_claimed_at_once(server: ClockedServer, seconds: int) -> None:
    server.raise_floors()
    server.enqueue("before")
    server.set(seconds)
    assert server.claim() == ["before"]


@JUMPS
@ISOLATION
@pytest.mark.parametrize(
    ("enqueue", "jobs"),
    [
        ("select enqueue('a', '{\"name\": \"after\"}')", 1),
        ("select enqueue_jobs('a', array_fill('{\"name\": \"after\"}'::text, array[2]))", 2),
        (
            """insert into jobs (job_type, data, run_at)
            values ('a', '{"name": "after"}', clock_timestamp() - interval '1 second')""",
            1,
        ),
    ],
    ids=["enqueue", "enqueue_jobs", "dated back"],
)
def test_a_job_enqueued_after_a_jump_is_claimed_at_once(
    server: ClockedServer, enqueue: str, jobs: int, seconds: int, isolation: str
) -> None:
    server.raise_floors()
    server.set(seconds)
    with connect(server, isolation) as other:
        other.execute(enqueue)
    assert server.claim() == ["after"] * jobs


@JUMPS
def test_a_clock_that_is_wrong_for_a_second_delays_no_job(server: ClockedServer, seconds: int) -> None:
    server.raise_floors()
    server.set(seconds)
    server.enqueue("meanwhile")
    server.enqueue("left")
    assert server.claim(1) == ["meanwhile"]
    server.complete()
    server.connection.execute("select tick('0')")
    server.set(0)
    server.enqueue("later")
    assert sorted(server.claim()) == ["later", "left"]


def test_jobs_from_before_the_clock_was_set_back_come_first(server: ClockedServer) -> None:
    server.raise_floors()
    server.enqueue("first of all")
    time.sleep(0.01)
    server.enqueue("before")
    server.set(-DAY)
    server.enqueue("after")
    assert server.claim() == ["first of all", "before", "after"]


def test_a_transaction_that_was_open_when_the_clock_was_set_back_enqueues_no_late_job(server: ClockedServer) -> None:
    server.raise_floors()
    with connect(server, "read committed") as other:
        other.execute("select enqueue('a', '{\"name\": \"open\"}')")
        server.set(-DAY)
        assert server.claim() == []
        server.connection.execute("select tick('0')")
    server.connection.execute("select tick('0')")
    assert server.claim() == ["open"]


def test_a_claim_in_a_transaction_that_cannot_tick_finds_jobs_below_floors_of_the_future(server: ClockedServer) -> None:
    for _ in range(3):
        server.raise_floors()
    server.set(-DAY)
    server.enqueue("after")
    with connect(server, "read committed") as other:
        other.execute("create temp table written (n int) on commit drop")
        rows = other.execute("select data->>'name' from claim_jobs('w', '{a}')").fetchall()
        assert rows == [("after",)]


def test_a_floor_that_a_slow_claim_writes_after_the_clock_was_set_back_is_lowered(server: ClockedServer) -> None:
    server.raise_floors()
    server.set(-DAY)
    server.connection.execute("select tick('0')")
    server.connection.execute(
        "insert into floors (queue, job_type, priority, floor, xid)"
        " select queue, job_type, priority, now() + interval '1 day', pg_current_xact_id() from lanes"
    )
    server.connection.execute("select tick('0')")
    server.enqueue("job")
    assert server.claim() == ["job"]


def test_floors_of_lanes_that_the_tick_does_not_examine_are_removed_when_the_clock_is_set_back(
    server: ClockedServer,
) -> None:
    server.raise_floors()
    server.connection.execute(
        "insert into floors (queue, job_type, priority, floor, xid)"
        " values ('idle', 'a', 100, clock_timestamp(), pg_current_xact_id())"
    )
    server.set(-DAY)
    server.connection.execute("select tick('0')")
    server.connection.execute("insert into jobs (job_type, queue, data) values ('a', 'idle', '{\"name\": \"new\"}')")
    assert server.claim() == ["new"]


def test_a_long_backlog_is_moved_in_several_ticks_and_keeps_its_order(server: ClockedServer) -> None:
    server.connection.execute(
        "select enqueue_jobs('a', array(select json_build_object('name', n)::text from generate_series(1, 5100) as n))"
    )
    server.connection.execute("select tick('0')")
    server.set(-DAY)
    names = server.claim(5)
    server.connection.execute("select tick('0')")
    while found := server.claim(1000):
        names += found
    assert names == [str(n) for n in range(1, 5101)]


# Jobs that have a time


def test_jobs_with_a_time_of_their_own_obey_the_new_clock(server: ClockedServer) -> None:
    server.raise_floors()
    server.enqueue("scheduled before", delay="1 hour")
    server.set(-DAY)
    server.enqueue("scheduled after", delay="1 hour")
    assert server.claim() == []
    server.connection.execute("select tick('0')")
    assert server.claim() == []
    server.set(-DAY + 3601)
    assert server.claim() == ["scheduled after"]
    server.set(3601)
    assert server.claim() == ["scheduled before"]


def test_a_retry_waits_as_long_as_intended_when_the_clock_is_set_back(server: ClockedServer) -> None:
    server.raise_floors()
    server.enqueue("retried")
    assert server.claim() == ["retried"]
    server.connection.execute("select release_job(id, '10 seconds') from jobs where status = 'claimed'")
    server.set(-DAY)
    assert server.claim() == []
    assert (
        5 < server.one("select extract(epoch from run_at - clock_timestamp()) from jobs where status = 'pending'") < 11
    )


@pytest.mark.parametrize("status", ["claimed", "running"])
def test_a_job_that_is_given_back_after_the_clock_was_set_back_is_due(server: ClockedServer, status: str) -> None:
    server.raise_floors()
    server.enqueue("given back")
    server.claim()
    server.connection.execute(
        "update jobs set status = %s, created_at = now() - interval '2 days' where status = 'claimed'", [status]
    )
    server.set(-DAY)
    server.connection.execute("select tick('0')")
    server.connection.execute("select release_job(id) from jobs where status = %s", [status])
    assert server.claim() == ["given back"]


# Order per key


@JUMPS
@pytest.mark.parametrize("noticed", [False, True], ids=["unnoticed", "noticed"])
def test_jobs_with_a_key_keep_their_order(server: ClockedServer, seconds: int, noticed: bool) -> None:
    server.raise_floors()
    server.enqueue("A", "k")
    server.enqueue("B", "k")
    server.set(seconds)
    if noticed:
        server.connection.execute("select tick('0')")
    # In other sessions: one session of PostgreSQL 18 makes ids that always grow.
    with server.server.connect() as other:
        other.execute("select enqueue('a', '{\"name\": \"C\"}', p_key => 'k')")
    server.set(0)
    with server.server.connect() as other:
        other.execute("select enqueue('a', '{\"name\": \"D\"}', p_key => 'k')")
    order = []
    for _ in range(4):
        order += server.claim()
        server.complete()
    assert order == ["A", "B", "C", "D"]


def test_an_id_that_is_given_with_a_job_is_not_changed(server: ClockedServer) -> None:
    server.enqueue("A", "k")
    server.set(-DAY)
    given = "01900000-0000-7000-8000-000000000000"
    server.connection.execute("insert into jobs (id, job_type, key) values (%s, 'a', 'k')", [given])
    assert server.one("select count(*) from jobs where id = %s", given) == 1


# Leases, heartbeats and pruning


def lose(server: ClockedServer) -> int:
    return int(server.one("select count(*) from recover_lost_workers()"))


def start_worker(server: ClockedServer) -> None:
    server.connection.execute("select register_worker('w', '10 seconds', '{a}')")
    server.enqueue("job")
    assert server.claim() == ["job"]


def test_a_worker_keeps_its_jobs_when_a_jump_ahead_was_noted(server: ClockedServer) -> None:
    start_worker(server)
    server.set(DAY)
    server.connection.execute("select note_clock_jump(clock_timestamp() - interval '1 day', clock_timestamp())")
    assert lose(server) == 0
    server.set(DAY + 11)
    assert lose(server) == 1, "it has not renewed its lease since"


def test_a_dead_worker_keeps_its_jobs_no_longer_than_its_lease_when_the_clock_is_set_back(
    server: ClockedServer,
) -> None:
    start_worker(server)
    server.set(-DAY)
    assert lose(server) == 0, "it may be alive"
    server.set(-DAY + 11)
    assert lose(server) == 1


def test_a_worker_is_lost_only_if_the_clock_was_even_for_half_of_its_lease(server: ClockedServer) -> None:
    start_worker(server)
    server.set(DAY)
    query = "select count(*) from recover_lost_workers(p_watched => %s::interval)"
    assert server.one(query, "4 seconds") == 0, "a live worker may not have renewed its lease since a jump"
    assert server.one(query, "5 seconds") == 1


def test_a_renewal_notes_that_the_clock_was_set_back(server: ClockedServer) -> None:
    """If it is set forward again before anybody else looks, the worker seems to be lost."""
    start_worker(server)
    server.connection.execute("truncate ticks")
    server.set(-DAY)
    server.connection.execute("select renew_workers('{w}', '10 seconds')")
    assert server.one("select extract(epoch from after - before)::int from clock_jumps") == pytest.approx(-DAY, abs=2)


def test_a_client_without_heartbeats_keeps_its_jobs_no_longer_when_the_clock_is_set_back(server: ClockedServer) -> None:
    server.raise_floors()
    server.enqueue("job")
    assert server.claim() == ["job"]
    server.set(-DAY)
    server.connection.execute("select tick('0')")
    assert server.one("select recover_stale_jobs('10 seconds')") == 0
    server.set(-DAY + 11)
    assert server.one("select recover_stale_jobs('10 seconds')") == 1


def test_a_client_keeps_its_jobs_when_a_jump_ahead_was_noted(server: ClockedServer) -> None:
    server.enqueue("job")
    assert server.claim() == ["job"]
    server.set(2 * DAY)
    server.connection.execute("select note_clock_jump(clock_timestamp() - interval '2 days', clock_timestamp())")
    assert server.one("select recover_stale_jobs('10 seconds')") == 0
    assert server.one("select count(*) from recover_unregistered()") == 0
    server.set(2 * DAY + 11)
    assert server.one("select recover_stale_jobs('10 seconds')") == 1


def test_jobs_are_not_pruned_too_early_when_a_jump_ahead_was_noted(server: ClockedServer) -> None:
    server.raise_floors()
    server.set(DAY)
    server.connection.execute("select note_clock_jump(clock_timestamp() - interval '1 day', clock_timestamp())")
    assert server.one("select pruned from prune_jobs('completed', '1 hour')") == 0
    server.set(DAY + 3601)
    assert server.one("select pruned from prune_jobs('completed', '1 hour')") == 1


# What is noted


def test_a_jump_back_is_noted_once(server: ClockedServer) -> None:
    server.raise_floors()
    server.set(-DAY)
    server.claim()
    server.connection.execute("select note_clock_jump(clock_timestamp() + interval '1 day', clock_timestamp())")
    jumps = server.connection.execute("select extract(epoch from after - before)::int from clock_jumps").fetchall()
    assert len(jumps) == 1
    assert -DAY - 2 < jumps[0][0] <= -DAY + 2

"""set_concurrency() in SQL and app.workers: what they return, and what they refuse."""

from typing import Any

import psycopg
import pytest
from psycopg import Connection

from tests.support.workers import one
from treadle import InvalidArgument, Treadle, UnknownWorker


def outcome(connection: Connection[Any], worker_id: str, number: int | None) -> str:
    return str(one(connection, "select set_concurrency(%s, %s)", worker_id, number))


def test_what_set_concurrency_returns(app: Treadle, connection: Connection[Any]) -> None:
    connection.execute("select register_worker('w', '1 minute', '{a}', null, 5), heartbeat('client')")
    numbers = (6, 6, 5, None, None, 5, 0)
    assert [outcome(connection, "w", each) for each in numbers] == [
        "done",
        "unchanged",
        "done",
        "done",
        "unchanged",
        "unchanged",
        "done",
    ]
    assert one(connection, "select count(*) from audit") == 4
    assert outcome(connection, "nobody", 5) == "missing"
    assert outcome(connection, "client", 5) == "missing", "it has no lease"
    connection.execute("select register_worker('other', '1 minute', '{a}')")
    assert outcome(connection, "other", 5) == "unsupported", "it has registered no number"
    connection.execute("update workers set seen_at = now() - interval '2 minutes' where worker_id = 'w'")
    assert outcome(connection, "w", 5) == "missing", "its lease has run out"


@pytest.mark.parametrize("number", [-1, 10_001])
def test_a_number_out_of_range_is_refused(app: Treadle, connection: Connection[Any], number: int) -> None:
    connection.execute("select register_worker('w', '1 minute', '{a}', null, 5)")
    with pytest.raises(psycopg.errors.InvalidParameterValue, match=f"from 0 to 10000, .* got {number}"):
        outcome(connection, "w", number)
    with pytest.raises(InvalidArgument, match=f"concurrency must be an integer from 0 to 10,000, got {number}"):
        app.workers.set_concurrency("w", number)


def test_a_worker_that_does_not_exist_or_does_not_follow_is_an_error(app: Treadle, connection: Connection[Any]) -> None:
    with pytest.raises(UnknownWorker, match="there is no live worker 'w'; it may have ended"):
        app.workers.set_concurrency("w", 5)
    connection.execute("select register_worker('w', '1 minute', '{a}')")
    with pytest.raises(InvalidArgument, match="the concurrency of 'w' cannot be changed: it is not a worker"):
        app.workers.reset_concurrency("w")


def test_a_worker_that_starts_again_has_its_own_number(app: Treadle, connection: Connection[Any]) -> None:
    connection.execute("select register_worker('w', '1 minute', '{a}', null, 5)")
    app.workers.set_concurrency("w", 9)
    connection.execute("select register_worker('w', '1 minute', '{a}', null, 6)")
    (row,) = app.workers()
    assert (row.concurrency, row.initial_concurrency) == (6, 6)


def test_what_was_set_for_workers_that_are_gone_is_deleted(app: Treadle, connection: Connection[Any]) -> None:
    connection.execute("select register_worker(name, '1 minute', '{a}', null, 5) from unnest('{v,w}'::text[]) as name")
    app.workers.set_concurrency("v", 9)
    connection.execute("delete from workers where worker_id = 'v'")
    app.workers.set_concurrency("w", 9)
    assert connection.execute("select worker_id from worker_concurrency").fetchall() == [("w",)]

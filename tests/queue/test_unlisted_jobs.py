"""Jobs that use a limit without having been claimed under it: they ran before it was declared, or by a plain UPDATE."""

from typing import Any

import pytest
from psycopg import Connection

from tests.conftest import Connect
from tests.queue.test_limits import claim, complete, enqueue, limit

Rows = Connection[Any]

CLAIM_BY_HAND = """update jobs set status = 'claimed', worker_id = 'by hand', claimed_at = now()
    where id in (select id from jobs where status = 'pending' order by run_at limit %s)"""


@pytest.fixture(autouse=True)
def no_tick(connection: Rows) -> None:
    """A claim makes no tick if one was just made."""
    connection.execute("select tick('0')")


def unlisted(connection: Rows) -> tuple[int, int]:
    """How many limits nobody has looked at to the end, and how many jobs wait to be listed."""
    counts = "select (select count(*) from unlisted_limits), (select count(*) from unlisted_jobs)"
    limits, jobs = connection.execute(counts).fetchone() or (0, 0)
    return limits, jobs


def claim_after_tick(connection: Rows) -> list[Any]:
    """The end of such a job is noticed by a tick."""
    connection.execute("select tick('0')")
    return claim(connection)


def use(connection: Rows) -> None:
    """Claim under the limit: then it is no longer new."""
    connection.execute("select enqueue('other', '{}')")
    complete(connection, *claim(connection, types="{other}"))
    assert unlisted(connection)[0] == 0


def declare(connection: Rows) -> None:
    limit(connection, 3)


def add(connection: Rows) -> None:
    connection.execute("select set_limit('crm', 3, p_job_type => 'sync')")


def add_to_queue(connection: Rows) -> None:
    connection.execute("select set_limit('crm', 3, p_queue => 'default')")


def add_type(connection: Rows) -> None:
    """The limit exists, for another job type."""
    connection.execute("select set_limit('crm', 3, p_job_type => 'other')")
    use(connection)
    connection.execute("select set_limit('crm', 3, p_job_type => 'sync')")


def change_kind(connection: Rows) -> None:
    limit(connection, 1000, 1, job_types=["sync", "other"])
    use(connection)
    limit(connection, 3, job_types=["sync", "other"])


def change_per(connection: Rows) -> None:
    limit(connection, 1000, per="tenant", job_types=["sync", "other"])
    use(connection)
    limit(connection, 3, job_types=["sync", "other"])


@pytest.mark.parametrize("change", [declare, add, add_to_queue, add_type, change_kind, change_per])
def test_jobs_that_run_when_a_limit_is_declared_count(connection: Rows, change: Any) -> None:
    enqueue(connection, 10)
    running = claim(connection, 5)
    change(connection)
    assert claim(connection) == []
    complete(connection, *running[:3])
    assert len(claim_after_tick(connection)) == 1
    complete(connection, *running[3:])
    assert len(claim_after_tick(connection)) == 2
    assert unlisted(connection)[0] == 0


def test_they_count_for_their_value(connection: Rows) -> None:
    """They were enqueued without it."""
    enqueue(connection, 4, "acme")
    enqueue(connection, 1, "globex")
    running = claim(connection, 5)
    enqueue(connection, 3, "acme")
    enqueue(connection, 3, "globex")
    limit(connection, 3, per="tenant")
    assert [row[1] for row in claim(connection)] == ["globex", "globex"]
    complete(connection, *running[:2])
    assert [row[1] for row in claim_after_tick(connection)] == ["acme"]


def test_they_count_with_their_weights(connection: Rows) -> None:
    enqueue(connection, 1, weight=3)
    claim(connection)
    enqueue(connection, 5)
    limit(connection, 5)
    assert len(claim(connection)) == 2


def test_a_rate_counts_starts_and_not_what_runs(connection: Rows) -> None:
    enqueue(connection, 10)
    claim(connection, 5)
    limit(connection, 3, 3600)
    assert len(claim(connection)) == 3


def test_a_limit_that_is_declared_again_lists_nothing(connection: Rows) -> None:
    enqueue(connection, 5)
    limit(connection, 3)
    assert len(claim(connection)) == 3
    limit(connection, 3)
    connection.execute("select set_limit('sync', 4)")
    assert unlisted(connection) == (0, 0)


def test_claims_by_hand_count(connection: Rows) -> None:
    limit(connection, 3)
    enqueue(connection, 10)
    assert len(claim(connection, 1)) == 1
    connection.execute(CLAIM_BY_HAND, [4])
    assert claim(connection) == []
    connection.execute("delete from limit_openings")
    connection.execute("update jobs set status = 'completed' where worker_id = 'by hand'")
    assert len(claim(connection)) == 2, "the end of such a job opens the limit at once"


def test_a_claim_by_hand_is_a_start_for_a_rate(connection: Rows) -> None:
    limit(connection, 3, 3600)
    enqueue(connection, 10)
    connection.execute(CLAIM_BY_HAND, [2])
    assert len(claim(connection)) == 1


def test_a_job_that_is_noted_twice_counts_once(connection: Rows) -> None:
    """Claimed by hand, and running when the limit is given another job type."""
    limit(connection, 5)
    enqueue(connection, 10)
    connection.execute(CLAIM_BY_HAND, [2])
    limit(connection, 5, job_types=["sync", "other"])
    assert len(claim(connection, 1)) == 1
    limit(connection, 5, job_types=["sync", "other", "third"])
    assert len(claim(connection)) == 2


def test_what_nobody_lists_is_forgotten_when_it_has_ended(connection: Rows) -> None:
    limit(connection, 3)
    enqueue(connection, 2)
    connection.execute(CLAIM_BY_HAND, [2])
    connection.execute("update jobs set status = 'completed' where id = (select job from unlisted_jobs limit 1)")
    connection.execute("select forget_limit_keys(clock_timestamp())")
    assert unlisted(connection)[1] == 1


@pytest.mark.parametrize("by_hand", [False, True])
def test_a_claim_that_began_before_the_limit_counts(connect: Connect, connection: Rows, by_hand: bool) -> None:
    """What it has claimed is not visible before it ends: until then, the limit has no room."""
    enqueue(connection, 10)
    earlier = connect()
    with earlier.transaction():
        if by_hand:
            earlier.execute(CLAIM_BY_HAND, [5])
        else:
            assert len(claim(earlier, 5)) == 5
        limit(connection, 3)
        assert claim(connection) == []
        assert claim(connection) == []
    assert claim(connection) == []
    running = connection.execute("select id from jobs where status = 'claimed'").fetchall()
    complete(connection, *running[:3])
    assert len(claim_after_tick(connection)) == 1


def test_claims_that_began_after_the_limit_are_not_waited_for(connect: Connect, connection: Rows) -> None:
    enqueue(connection, 10)
    earlier, later = connect(), connect()
    with later.transaction():
        with earlier.transaction():
            assert len(claim(earlier, 1)) == 1
            limit(connection, 3)
            assert claim(connection) == []
            assert claim(later, types="{other}") == []
        assert len(claim(connection)) == 2


def test_nobody_waits_long_for_a_claim_that_stays_open(connect: Connect, connection: Rows) -> None:
    enqueue(connection, 10)
    earlier = connect()
    with earlier.transaction():
        assert len(claim(earlier, 5)) == 5
        limit(connection, 3)
        assert claim(connection) == []
        connection.execute("update unlisted_limits set noted_at = noted_at - interval '11 seconds'")
        assert len(claim(connection)) == 3
    complete(connection, *claim(connection, types="{other}"))
    claimed = connection.execute("select id from jobs where status = 'claimed' and worker_id = 'w'").fetchall()
    complete(connection, *claimed[:5])
    assert claim(connection) == [], "and in the end, it counts"
    assert unlisted(connection) == (0, 0)


def test_a_claim_that_lists_them_and_stays_open_holds_up_nobody(connect: Connect, connection: Rows) -> None:
    """Neither other claims of the limit, nor its next change."""
    limit(connection, 3, per="tenant")
    enqueue(connection, 1, "acme")
    claim(connection)
    enqueue(connection, 3, "globex")
    limit(connection, 3, per="tenant", job_types=["sync", "other"])
    enqueue(connection, 3, "acme")
    one = connect()
    with one.transaction():
        assert [row[1] for row in claim(one, 1)] == ["globex"]
        assert [row[1] for row in claim(connection)] == ["acme", "acme"]
        limit(connection, 3, job_types=["sync", "other", "third"])


def after_another(connection: Rows) -> None:
    other = connection.execute("select enqueue('other', '{}')").fetchone()
    enqueue(connection, after=[{"id": str(job)} for job in other or ()])


def behind_its_key(connection: Rows) -> None:
    connection.execute("select enqueue('other', '{}', p_key => 'k')")
    enqueue(connection, key="k")


def in_a_first_attempt(connection: Rows) -> None:
    enqueue(connection)
    connection.execute(f"{CLAIM_BY_HAND} returning id", [1])


def free(connection: Rows) -> None:
    complete(connection, *claim(connection, types="{other}"))


def give_back(connection: Rows) -> None:
    connection.execute("update jobs set status = 'pending', worker_id = null where status = 'claimed'")


@pytest.mark.parametrize(
    ("wait", "end"),
    [(after_another, free), (behind_its_key, free), (in_a_first_attempt, give_back)],
    ids=lambda each: str(each.__name__),
)
def test_a_job_that_could_not_be_claimed_when_the_limit_was_declared_counts_with_its_value(
    connection: Rows, wait: Any, end: Any
) -> None:
    wait(connection)
    assert claim(connection) == []
    limit(connection, 1, per="tenant")
    end(connection)
    enqueue(connection)
    (first,) = claim(connection)
    assert claim(connection) == []
    complete(connection, first)
    assert len(claim(connection)) == 1

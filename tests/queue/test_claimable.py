"""The SQL functions that define claimable jobs are inlined, so that queries match the predicates of the indexes."""

import json
from typing import Any, NamedTuple

import pytest
from psycopg import Connection

pytestmark = pytest.mark.fresh_database

LANE = "row('default', 'mail', 100, '')::treadle.lane"


class Plan(NamedTuple):
    """A statement with our functions, the same statement written out, and the index that both must use."""

    named: str
    written_out: str
    index_name: str


PLANS = {
    "the head of a lane": Plan(
        f"select run_at from lane_jobs({LANE}, '-infinity') order by run_at limit 1",
        """select run_at from jobs
        where queue = 'default' and job_type = 'mail' and priority = 100 and partition = '' collate "C"
          and run_at >= '-infinity' and status = 'pending' and holds = 0 and attempts < max_attempts
        order by run_at limit 1""",
        "idx_jobs_claimable",
    ),
    "a claim": Plan(
        f"""select ctid from jobs
        where is_in_lane(queue, job_type, priority, partition, {LANE}) and run_at <= '2024-01-01'
          and is_claimable(status, holds, attempts, max_attempts)
        order by run_at limit 10 for no key update skip locked""",
        """select ctid from jobs
        where queue = 'default' and job_type = 'mail' and priority = 100 and partition = '' collate "C"
          and run_at <= '2024-01-01' and status = 'pending' and holds = 0 and attempts < max_attempts
        order by run_at limit 10 for no key update skip locked""",
        "idx_jobs_claimable",
    ),
    "the head of a key": Plan(
        """select id from jobs where key = 'k' and status in ('pending', 'claimed', 'running')
        order by key_rank(status, holds), id limit 1""",
        """select id from jobs where key = 'k' and status in ('pending', 'claimed', 'running')
        order by case status when 'pending' then 1 + (holds & 1) else 0 end, id limit 1""",
        "idx_jobs_key",
    ),
    "the blocked jobs of a key": Plan(
        """select id from jobs where key = 'k' and status in ('pending', 'claimed', 'running')
          and key_rank(status, holds) = 2 order by id limit 1""",
        """select id from jobs where key = 'k' and status in ('pending', 'claimed', 'running')
          and case status when 'pending' then 1 + (holds & 1) else 0 end = 2 order by id limit 1""",
        "idx_jobs_key",
    ),
    "the floor of a lane": Plan(
        f"select floor from lane_floor({LANE})",
        """select floor from floors where queue = 'default' and job_type = 'mail' and priority = 100
          and partition = '' collate "C"
        order by xid desc limit 1""",
        "idx_floors_lane",
    ),
}


@pytest.fixture
def filled_table(connection: Connection[Any]) -> Connection[Any]:
    """A connection to a table with enough jobs for the planner to use indexes; most jobs have the same key."""
    connection.execute(
        "insert into jobs (job_type, key, holds) select 'mail', case when n % 2 = 0 then 'k' end, n % 2 "
        "from generate_series(1, 2000) as n"
    )
    connection.execute(
        "insert into lanes (queue, job_type, priority) select 'default', n, n from generate_series(1, 500) as n"
    )
    connection.execute("analyze jobs, lanes")
    connection.execute("set enable_seqscan = off")
    connection.execute("set enable_bitmapscan = off")
    return connection


def scans(connection: Connection[Any], statement: str) -> list[tuple[str, str, str]]:
    """Index, index condition and filter of every scan in the plan, without aliases and qualifiers."""
    (text,) = connection.execute(f"explain (format json, verbose off, costs off) {statement}".encode()).fetchone() or (
        "",
    )
    plans = text if isinstance(text, list) else json.loads(text)
    found = []
    waiting = [plans[0]["Plan"]]
    while waiting:
        node = waiting.pop()
        waiting += node.get("Plans", [])
        if "Scan" in node["Node Type"] and node["Node Type"] != "Subquery Scan":
            alias = node.get("Alias", "")
            conditions = [node.get(key, "").replace(f"{alias}.", "") for key in ("Index Cond", "Filter")]
            found.append((node.get("Index Name", node["Node Type"]), *conditions))
    return found


@pytest.mark.parametrize("what", PLANS)
def test_the_functions_are_inlined_to_the_predicates_of_the_indexes(filled_table: Connection[Any], what: str) -> None:
    look = PLANS[what]
    ((index, condition, rest),) = scans(filled_table, look.named)
    assert scans(filled_table, look.written_out) == [(index, condition, rest)]
    assert index == look.index_name
    assert condition


def test_a_claim_reads_only_the_given_lane(filled_table: Connection[Any]) -> None:
    """With the lane as a parameter, as in a generic plan, all its columns are index conditions."""
    filled_table.execute("set plan_cache_mode = force_generic_plan")
    filled_table.execute(
        "prepare head (treadle.lane) as select run_at from lane_jobs($1, '-infinity') order by run_at limit 1"
    )
    ((index, condition, rest),) = scans(filled_table, f"execute head ({LANE})")
    filled_table.execute("deallocate head")
    assert index == "idx_jobs_claimable"
    assert all(f"({column}" in condition for column in ("queue", "job_type", "priority", "run_at"))
    assert not rest


def test_triggers_do_not_depend_on_their_names_order(connection: Connection[Any]) -> None:
    """PostgreSQL fires triggers in the order of their names. With the order reversed, the result must be the same."""
    rows = connection.execute(
        "select tgname from pg_trigger where tgrelid = 'jobs'::regclass and not tgisinternal order by tgname desc"
    ).fetchall()

    def run_jobs_through_all_triggers() -> list[tuple[Any, ...]]:
        connection.execute(
            "insert into jobs (job_type, key, run_at) select 'a', 'k', '2000-01-01' from generate_series(1, 3)"
        )
        ids = [row[0] for row in connection.execute("select id from jobs order by id")]
        # The second job is blocked when it is cancelled, and made pending by an update; it must not be below the floor.
        connection.execute(
            "insert into floors (queue, job_type, priority, floor, xid)"
            " select queue, job_type, priority, '2010-01-01', pg_current_xact_id() from lanes"
        )
        connection.execute("update jobs set status = 'cancelled' where id = %s", [ids[1]])
        connection.execute("update jobs set status = 'pending' where id = %s", [ids[1]])
        connection.execute("update jobs set status = 'completed' where id = %s", [ids[0]])
        connection.execute("delete from jobs where id = %s", [ids[0]])
        return connection.execute(
            "select status, holds, run_at >= '2010-01-01', finished_at is null from jobs order by id"
        ).fetchall()

    expected = [("pending", 0, True, True), ("pending", 0, True, True)]
    with connection.transaction(force_rollback=True):
        assert run_jobs_through_all_triggers() == expected
    with connection.transaction(force_rollback=True):
        for nth, (name,) in enumerate(rows):
            connection.execute(f"alter trigger {name} on jobs rename to t{nth}".encode())
        assert run_jobs_through_all_triggers() == expected

"""Plans of claims do not depend on when somebody analyzed the tables, and what was in them then."""

from collections.abc import Callable
from typing import Any

import pytest
from psycopg import Connection

from tests.conftest import Connect
from tests.queue.test_lane_cost import CLAIM, TICK, TYPES, add_jobs, buffers, idle_lanes, vacuum_lanes

pytestmark = pytest.mark.fresh_database

# What claims and ticks read, apart from jobs.
TABLES = (
    *("lanes", "floors", "ticks", "pauses", "limits", "limit_targets", "limit_keys", "limit_openings", "limit_holders"),
    *("unlisted_limits", "unlisted_jobs", "type_settings", "fair_weights"),
    *("dependency_checks", "dependency_requests", "wake_requests", "expiries", "pruned"),
)
ANALYZE = f"analyze {', '.join(TABLES)}"


def ten_active_lanes(connection: Connection[Any]) -> None:
    add_jobs(connection, 3000)


def thousands_of_active_lanes(connection: Connection[Any]) -> None:
    connection.execute(
        """insert into jobs (job_type, queue) select 'type-' || nth % 10, 'queue-' || nth
        from generate_series(1, 3000) as nth"""
    )
    connection.execute(TICK)


def idle_lanes_only(connection: Connection[Any]) -> None:
    idle_lanes(connection, 3000)
    connection.execute("update lanes set dormant_xid = pg_current_xact_id()")


@pytest.mark.parametrize("earlier", [ten_active_lanes, thousands_of_active_lanes, idle_lanes_only])
def test_a_claim_costs_the_same_with_statistics_of_another_state(
    connect: Connect, earlier: Callable[[Connection[Any]], None]
) -> None:
    connection = connect()
    earlier(connection)
    connection.execute(ANALYZE)
    connection.execute("truncate jobs, lanes, floors cascade")
    add_jobs(connection, 1000)
    before = buffers(connection, CLAIM)
    connection.execute(TICK)
    idle_lanes(connection, 2000)
    connection.execute("update lanes set priority = 1000 where queue <> 'default'")
    for _ in range(2):  # each makes a thousand lanes dormant
        assert len(connection.execute(CLAIM, {"types": TYPES}).fetchall()) == 10
    vacuum_lanes(connection)
    assert buffers(connection, CLAIM) <= 1.2 * before + 10


def statistics(connection: Connection[Any]) -> list[Any]:
    return connection.execute(
        """select known.starelid::regclass, attribute.attname
        from pg_statistic as known
        left join pg_index as index on index.indexrelid = known.starelid
        join pg_attribute as attribute on attribute.attrelid = known.starelid and attribute.attnum = known.staattnum
        where coalesce(index.indrelid, known.starelid) = any (%s::regclass[])""",
        [list(TABLES)],
    ).fetchall()


def test_no_column_that_claims_read_gets_statistics(connect: Connect) -> None:
    """Also those that a later migration adds."""
    connection = connect()
    ten_active_lanes(connection)
    connection.execute(ANALYZE)
    assert statistics(connection) == [], "set their statistics to 0, as the baseline does"

"""The cost of a statement, counted in buffers."""

from typing import Any

from psycopg import Connection


def buffers(connection: Connection[Any], statement: str) -> int:
    """How many buffers the statement touches. It is rolled back."""
    for _ in range(2):  # the first use of a function in a session reads the catalog
        with connection.transaction(force_rollback=True):
            row = connection.execute(f"explain (analyze, buffers, format json) {statement}".encode()).fetchone()
        assert row
        plan = row[0][0]["Plan"]
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


def claim_buffers(connection: Connection[Any], rows: int, tick: bool = False) -> int:
    """How many buffers a claim of 10 jobs of type "mine" touches. It must find `rows` jobs; it is rolled back."""
    for _ in range(2):  # the first use of a function in a session reads the catalog
        if tick:
            connection.execute("select tick('0')")
        with connection.transaction(force_rollback=True):
            row = connection.execute(
                "explain (analyze, buffers, format json) select * from claim_job_batch('w', '{mine}', 10)"
            ).fetchone()
        assert row
        plan = row[0][0]["Plan"]
    assert plan["Actual Rows"] == rows
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])

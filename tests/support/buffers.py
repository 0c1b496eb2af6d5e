"""The cost of a statement, counted in buffers."""

from collections.abc import Mapping
from typing import Any

from psycopg import Connection

RUNS, MOST_RUNS = 4, 40


def buffers(
    connection: Connection[Any],
    statement: str | bytes,
    params: Mapping[str, Any] | None = None,
    rows: int | None = None,
    tick: bool = False,
) -> int:
    """How many buffers the statement touches at least. It is rolled back. It must return `rows` rows, if given.

    The first use of a function in a session reads the catalog, and so does the next one after autovacuum has analyzed
    a table; the second run of a statement marks dead entries of indexes. So several runs are counted. With `tick`, each
    follows a tick. On a busy machine so much time may pass after it that a claim makes another one: such a run does not
    count."""
    text = statement.encode() if isinstance(statement, str) else statement
    counts: list[int] = []
    for _ in range(MOST_RUNS):
        if len(counts) == RUNS:
            break
        if tick:
            connection.execute("select tick('0')")
        with connection.transaction(force_rollback=True):
            row = connection.execute(
                b"explain (analyze, buffers, format json) " + text, params, prepare=False
            ).fetchone()
        assert row
        if tick and connection.execute("select tick_is_fresh()").fetchone() != (True,):
            continue
        plan = row[0][0]["Plan"]
        assert rows is None or plan["Actual Rows"] == rows, plan["Actual Rows"]
        counts.append(int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]))
    assert len(counts) == RUNS, "the machine is too busy to run a statement right after a tick"
    return min(counts)


def claim_buffers(connection: Connection[Any], rows: int, tick: bool = False) -> int:
    """How many buffers a claim of 10 jobs of type "mine" touches. It must find `rows` jobs; it is rolled back."""
    return buffers(connection, "select * from claim_job_batch('w', '{mine}', 10)", rows=rows, tick=tick)

"""The cost of the graph of a workflow depends on its own jobs only. It is counted in buffers, not in time."""

from typing import Any

import pytest
from psycopg import Connection

from tests.support.buffers import buffers
from tests.support.graphs import fan, insert_workflow
from treadle.db.queries import workflows as queries
from treadle.db.query import Query
from treadle.db.runner import read_settings

pytestmark = pytest.mark.fresh_database


def cost(connection: Connection[Any], query: Query[Any], rows: int) -> int:
    """As a read runs it."""
    with connection.transaction():
        connection.execute(read_settings(60))
        connection.execute(queries.in_index_order().text)
        return buffers(connection, query.bound("treadle"), query.params, rows)


def test_other_workflows_do_not_add_to_the_cost(connection: Connection[Any]) -> None:
    workflow, ids = insert_workflow(connection, fan(100))
    asked: list[tuple[Query[Any], int]] = [
        (queries.find_graph(workflow), 102),
        (queries.find_graph_edges(workflow), 101),
        (queries.find_neighbours(ids[50], 20), 3),
        (queries.find_graph_jobs(ids[:5]), 5),
        (queries.find_nested_edges(workflow, ids[-1:]), 1),
    ]
    before = [cost(connection, query, rows) for query, rows in asked]
    for _ in range(20):
        insert_workflow(connection, fan(200))
    after = [cost(connection, query, rows) for query, rows in asked]
    for less, more in zip(before, after, strict=True):
        assert more <= 2 * less + 20


def test_the_number_of_jobs_is_bounded(connection: Connection[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queries, "MAX_NODES", 100)
    monkeypatch.setattr(queries, "MAX_EDGES", 100)
    workflow, _ = insert_workflow(connection, fan(200))
    nodes = cost(connection, queries.find_graph(workflow), 101)
    edges = cost(connection, queries.find_graph_edges(workflow), 100)
    larger, _ = insert_workflow(connection, fan(4_000))
    assert cost(connection, queries.find_graph(larger), 101) <= 2 * nodes + 100
    assert cost(connection, queries.find_graph_edges(larger), 100) <= 2 * edges + 100


def test_the_number_of_jobs_around_a_job_is_bounded(connection: Connection[Any]) -> None:
    _, few = insert_workflow(connection, fan(1_000))
    first, last = (cost(connection, queries.find_neighbours(few[nth], 20), 22) for nth in (0, -1))
    _, many = insert_workflow(connection, fan(8_000))
    assert cost(connection, queries.find_neighbours(many[0], 20), 22) <= 2 * first + 100
    assert cost(connection, queries.find_neighbours(many[-1], 20), 22) <= 2 * last + 100

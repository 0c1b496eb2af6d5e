"""Graphs of workflows, as values and in the database."""

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from psycopg import Connection

from tests.support.flags import Flag
from treadle import Treadle
from treadle.db.query import Query
from treadle.words.errors import TooSlow
from treadle.words.graph import Graph, Node

START = datetime(2030, 1, 31, 8, 0, tzinfo=UTC)
WORKFLOW_ID = UUID(int=2**100)


def node(nth: int, seconds: float | None = None, status: str = "completed", **more: Any) -> Node:
    """A job that began at START, and ran for so long."""
    started = None if seconds is None else START
    finished = None if seconds is None or status == "running" else START + timedelta(seconds=seconds)
    values: dict[str, Any] = {
        "job_type": "step",
        "created_at": START,
        "started_at": started,
        "finished_at": finished,
    } | more
    return Node(UUID(int=nth), status=status, **values)


def graph(nodes: Sequence[Node], after: Sequence[Sequence[int]], **more: Any) -> Graph:
    return Graph(WORKFLOW_ID, more.pop("at", START), nodes, after, **more)


def plain(after: Sequence[Sequence[int]], types: Sequence[str] | None = None) -> Graph:
    """Jobs that have completed within a second."""
    return graph([node(nth, 1.0, job_type=types[nth] if types else "step") for nth in range(len(after))], after)


def fan(width: int) -> list[Sequence[int]]:
    """One job, `width` jobs after it, and one after all of those."""
    return [(), *([(0,)] * width), tuple(range(1, width + 1))]


def tangle(number: int) -> list[Sequence[int]]:
    """Each waits for up to three of the forty before it. Always the same."""
    chance = random.Random(7)
    return [tuple(chance.sample(range(max(0, nth - 40), nth), min(nth, chance.randint(0, 3)))) for nth in range(number)]


def insert_workflow(
    connection: Connection[Any],
    after: Sequence[Sequence[int]],
    names: Sequence[str | None] | None = None,
    types: Sequence[str] | None = None,
    status: str = "completed",
    title: str = "a workflow",
) -> tuple[UUID, list[UUID]]:
    """Writes the rows of a workflow; returns its id and those of its jobs."""
    rows = connection.execute(
        """
        insert into treadle.jobs (job_type, status, started_at, finished_at)
        select
            given.job_type, %(status)s::text, now(),
            case when %(status)s::text in ('completed', 'failed', 'cancelled') then now() + interval '1 second' end
        from unnest(%(types)s::text[]) as given (job_type)
        returning id
        """,
        {"types": list(types) if types else ["step"] * len(after), "status": status},
    ).fetchall()
    ids = sorted(row[0] for row in rows)
    row = connection.execute(
        """insert into treadle.jobs (job_type, data, holds, flags)
        values ('workflow', jsonb_build_object('name', %s::text), 2, %s) returning id""",
        [title, Flag.DEPENDENCIES | Flag.WORKFLOW],
    ).fetchone()
    assert row
    workflow: UUID = row[0]
    with connection.cursor() as cursor:
        with cursor.copy("copy treadle.dependencies (job_id, after_id, needs, step) from stdin") as copy:
            for nth, job in enumerate(ids):
                copy.write_row((workflow, job, "member", names[nth] if names else None))
                for source in after[nth]:
                    copy.write_row((job, ids[source], "completed", None))
    return workflow, ids


# How the statement begins.
GRAPH = "-- The jobs of a workflow"


class CountedGraphs:
    """Counts the queries of an application, and can make those of graphs fail."""

    def __init__(self, app: Treadle) -> None:
        self.texts: list[str] = []
        self.slow = False
        self._read = app.database.aread_together
        app.database.aread_together = self.aread_together  # type: ignore[method-assign]

    async def aread_together(self, queries: Sequence[Query[Any]], seconds: float | None = None) -> Any:
        self.texts += [query.text for query in queries]
        if self.slow and any(query.text.startswith(GRAPH) for query in queries):
            raise TooSlow("slow")
        return await self._read(queries, seconds)

    def graphs(self) -> int:
        return len([text for text in self.texts if text.startswith(GRAPH)])

    def edges(self) -> int:
        return len([text for text in self.texts if "which jobs it waits for" in text])

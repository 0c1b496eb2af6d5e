"""The names of job types, queues and workers that the dashboard suggests."""

from typing import Any

from psycopg import Connection

from tests.support.buffers import buffers
from treadle import JobQueue, Treadle
from treadle.db.queries.overview import Names, find_names


def test_names_are_known_from_jobs_workers_schedules_and_the_past(
    app: Treadle, queue: JobQueue, connection: Connection[Any]
) -> None:
    queue.enqueue("mail")
    queue.enqueue("mail", queue="slow")
    queue.enqueue("films")
    connection.execute("select register_worker('w', '1 hour', '{served}', '{nights}', 5)")
    connection.execute("select put_schedule('nightly', 'report', '0 3 * * *')")
    connection.execute("insert into minutes (minute, queue, job_type) values (now(), 'old', 'Ended')")
    found = app.database.read(find_names())
    assert sorted(found.types, key=str.lower) == ["Ended", "films", "mail", "report", "served"]
    assert found._replace(types=[]) == Names([], ["default", "nights", "old", "slow"], ["w"])
    assert app.database.read(find_names("EN")) == Names(["Ended"], [], [])
    assert app.database.read(find_names(limit=1))._replace(types=[]) == Names([], ["default"], ["w"])


def test_the_partitions_of_a_lane_are_not_read_one_by_one(connection: Connection[Any]) -> None:
    query = find_names()
    connection.execute("insert into lanes (queue, job_type, priority) values ('default', 'a', 1), ('default', 'b', 1)")
    few = buffers(connection, query.text.replace("treadle.", ""), query.params)
    connection.execute(
        """insert into lanes (queue, job_type, priority, partition)
        select 'default', 'a', 1, jsonb_build_object('tenant', n)::text from generate_series(1, 20000) as n"""
    )
    connection.execute("analyze lanes")
    assert buffers(connection, query.text.replace("treadle.", ""), query.params) <= few + 20

"""A publication for all tables (change capture, an upgrade by logical replication) stops nothing."""

from typing import Any

import psycopg
import pytest
from psycopg import Connection

from treadle import JobQueue


def publish(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as owner:
        owner.execute("create publication everything for all tables")


def use_every_table(url: str) -> None:
    """Write to every table, and delete what was written."""
    with JobQueue(url, "worker-1") as queue, psycopg.connect(url, autocommit=True) as owner:
        for key in ("a", "a", None, None):
            queue.enqueue("published", key=key)
        first, second, third = queue.claim(["published"], 10)
        queue.start(first)
        queue.event(first, "event")
        queue.complete(first)
        queue.fail(second, "reason", final=True)
        queue.fail(third, "reason", delay=0)
        queue.pause("published")
        queue.resume("published")
        for _ in range(3):
            owner.execute("select treadle.tick()")
        assert len(queue.claim(["published"], 10)) == 2
        assert queue.recover_stale_jobs("0s") == 2
        assert queue.prune("completed", "0s") == 1
        assert queue.prune("failed", "0s") == 1
        owner.execute("delete from treadle.jobs")
        owner.execute("delete from treadle.floors")
        assert owner.execute("select count(*) from treadle.errors").fetchone() == (0,)


def test_every_table_that_can_be_published_has_a_primary_key(connection: Connection[Any]) -> None:
    rows = connection.execute(
        """
        select relname
        from pg_class as class
        where relnamespace = 'treadle'::regnamespace and relkind = 'r' and relpersistence = 'p'
          and not exists (select from pg_index where indrelid = class.oid and indisprimary)
        """
    ).fetchall()
    assert rows == []


@pytest.mark.own_database
def test_jobs_are_pruned_and_deleted_under_a_publication_for_all_tables(url: str) -> None:
    publish(url)
    use_every_table(url)

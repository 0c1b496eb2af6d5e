"""A publication for all tables (change capture, an upgrade by logical replication) stops nothing."""

from typing import Any

import psycopg
import pytest
from psycopg import Connection

from treadle import JobQueue
from treadle.db.database import Database
from treadle.db.query import sql_text
from treadle.doctor.examine import examine

# What migration 10 did.
UNDO = """
alter table treadle.errors drop constraint errors_pkey;
create index idx_errors_job on treadle.errors (job_id);
alter table treadle.floors drop column id
"""


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


def test_errors_that_are_not_unique_get_no_key_and_the_doctor_says_how(own_url: str) -> None:
    """Nor those of a table that is too large to build an index while it is locked."""
    with psycopg.connect(own_url, autocommit=True) as owner:
        owner.execute(UNDO)
        owner.execute(
            "insert into treadle.errors (job_id, attempt, failed_at, error)"
            " select '01a5fcb0-0000-7000-8000-000000000000', 1, '2026-01-01', 'twice' from generate_series(1, 2)"
        )
        with owner.transaction():
            owner.execute(sql_text("migrations", "0010_primary_keys.sql").encode())
    publish(own_url)
    with psycopg.connect(own_url, autocommit=True) as owner:
        owner.execute("delete from treadle.errors")
    use_every_table(own_url)
    (found,) = [each for each in examine(Database(own_url, "treadle")) if each.name == "indexes"]
    assert "errors_pkey on errors is missing" in found.detail
    with psycopg.connect(own_url, autocommit=True) as owner:
        for statement in found.remedy.split(";\n"):
            owner.execute(statement.encode())
    (found,) = [each for each in examine(Database(own_url, "treadle")) if each.name == "indexes"]
    assert found.title == "All indexes exist and are valid."

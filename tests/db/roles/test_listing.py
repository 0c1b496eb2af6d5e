"""Lists and bulk changes as each role. A role without access to payloads can list jobs but not search payloads."""

from typing import Any

import psycopg
import pytest

from tests.support.commands import run_treadle
from tests.support.roles import Roles
from treadle import JobQueue, Retries, Treadle
from treadle.db.database import Database
from treadle.db.queries import listing as listing_queries
from treadle.operations.bulk import Change, count
from treadle.operations.ids import resolve_id
from treadle.text.payload_condition import index_statement, read_payload_condition
from treadle.words.changes import Action
from treadle.words.errors import NotAllowed
from treadle.words.listing import JobFilter
from treadle.words.overview import Total


def found(roles: Roles, role: str, **filters: Any) -> int:
    database = Database(roles.url_of(role), "treadle")
    try:
        return len(database.read(listing_queries.find_jobs(JobFilter(**filters), None, 50), 30).jobs)
    finally:
        database.close()


@pytest.mark.parametrize("status", ["pending", "failed", None])
def test_a_viewer_lists_jobs_but_cannot_search_payloads(roles: Roles, status: str | None) -> None:
    with JobQueue(roles.url, "owner") as queue:
        queue.enqueue_many("a", [{"name": "secret"}] * 3, retry=Retries(0))
        if status == "failed":
            for job in queue.claim(["a"]):
                queue.fail(job, "out of paper")
    assert found(roles, "viewer", status=status) == found(roles, "operator", status=status) == 3
    assert found(roles, "operator", status=status, search="secret") == 3
    assert found(roles, "viewer", status=status, search="secret") == 0
    assert found(roles, "viewer", status=status, search="paper") == (3 if status == "failed" else 0)


@pytest.mark.parametrize("status", ["pending", None])
@pytest.mark.parametrize("condition", ['data.name = "secret"', "data.name exists"])
def test_only_an_operator_can_use_payload_conditions(roles: Roles, status: str | None, condition: str) -> None:
    with JobQueue(roles.url, "owner") as queue:
        queue.enqueue("a", {"name": "secret"})
    where = read_payload_condition(condition)
    assert found(roles, "operator", status=status, where=where) == 1
    with pytest.raises(NotAllowed):
        found(roles, "viewer", status=status, where=where)
    with psycopg.connect(roles.url) as connection:
        connection.execute(index_statement(where, "treadle").replace("concurrently ", "").encode())
        connection.commit()
        assert found(roles, "operator", status=status, where=where) == 1, "along an index"
        with pytest.raises(NotAllowed):
            found(roles, "viewer", status=status, where=where)
        connection.execute("drop index treadle.jobs_jsonb_hash_extended_id_idx")


def test_a_viewer_finds_jobs_by_digits(roles: Roles) -> None:
    with JobQueue(roles.url, "owner") as queue:
        job = queue.enqueue("a")
    assert found(roles, "viewer", search=job.hex[-8:]) == 1
    database = Database(roles.url_of("viewer"), "treadle")
    try:
        assert resolve_id(database, job.hex[-8:]) == job
    finally:
        database.close()


def test_the_command_line_says_that_payloads_are_not_searched(roles: Roles) -> None:
    with JobQueue(roles.url, "owner") as queue:
        queue.enqueue("films", {"title": "Metropolis"})
    as_viewer = {"TREADLE_DATABASE_URL": roles.url_of("viewer")}
    result = run_treadle("jobs", "--search", "metropolis", **as_viewer)
    assert result.stderr.startswith("Searching errors and ids only: this database role may not read payloads.")
    result = run_treadle("jobs", "--where", "data.title exists", **as_viewer)
    assert (result.exit_code, "may not read" in result.stderr) == (1, True), result.stderr


def test_only_an_operator_can_make_bulk_changes(roles: Roles) -> None:
    with JobQueue(roles.url, "owner") as queue:
        queue.enqueue_many("a", [{}] * 3)
    viewer, operator = Treadle(roles.url_of("viewer")), Treadle(roles.url_of("operator"))
    try:
        assert count(viewer.database, JobFilter(), Action.CANCEL) == Total(3, exact=True)
        with pytest.raises(NotAllowed):
            list(Change(viewer.database, JobFilter(), Action.CANCEL, "eve"))
        assert [*Change(operator.database, JobFilter(), Action.CANCEL, "ada")][-1].done == 3
    finally:
        viewer.close()
        operator.close()

"""Lists and bulk changes as each role. A role without access to payloads can list jobs but not search payloads."""

from typing import Any

import pytest

from tests.support.roles import Roles
from treadle import JobQueue, Treadle
from treadle.db.database import Database
from treadle.db.queries import listing as listing_queries
from treadle.operations.bulk import Change, count
from treadle.words.changes import Action
from treadle.words.errors import NotAllowed
from treadle.words.listing import JobFilter
from treadle.words.overview import Total


@pytest.fixture(autouse=True)
def without_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine, a page would stop early."""
    monkeypatch.setattr(listing_queries, "PATIENCE", None)


def found(roles: Roles, role: str, **filters: Any) -> int:
    database = Database(roles.url_of(role), "treadle")
    try:
        return len(database.read(listing_queries.find_jobs(JobFilter(**filters), None, 50), 30).jobs)
    finally:
        database.close()


@pytest.mark.parametrize("status", ["pending", "failed", None])
def test_a_viewer_lists_jobs_but_cannot_search_payloads(roles: Roles, status: str | None) -> None:
    with JobQueue(roles.url, "owner") as queue:
        queue.enqueue_many("a", [{"name": "secret"}] * 3, max_attempts=1)
        if status == "failed":
            for job in queue.claim(["a"]):
                queue.fail(job, "out of paper")
    assert found(roles, "viewer", status=status) == found(roles, "operator", status=status) == 3
    assert found(roles, "operator", status=status, search="secret") == 3
    assert found(roles, "viewer", status=status, search="secret") == 0
    assert found(roles, "viewer", status=status, search="paper") == (3 if status == "failed" else 0)


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

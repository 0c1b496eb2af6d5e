"""The operator role can read everything, and changes jobs through functions that write the audit."""

from typing import Any

import psycopg
import pytest
from psycopg import Connection

from tests.support.commands import output_of, run_treadle
from tests.support.roles import Roles
from tests.support.workers import one
from treadle import JobQueue, Treadle
from treadle.db.database import Database
from treadle.db.queries import operations as operation_queries
from treadle.words.changes import Action


def test_an_operator_can_read_everything(roles: Roles, queue: JobQueue) -> None:
    job_id = queue.enqueue("films", {"secret": 1})
    with JobQueue(roles.url_of("operator")) as operator:
        assert operator.get(job_id).data == {"secret": 1}
        assert len(operator.list(job_type="films").jobs) == 1
    app = Treadle(roles.url)
    stored = app.store(b"large")
    operating = Treadle(roles.url_of("operator"))
    assert operating.read(stored) == b"large"
    app.close()
    operating.close()


def test_an_operator_can_make_every_change(roles: Roles, queue: JobQueue, owner: Connection[Any]) -> None:
    """The queue itself updates everything else: lanes, keys, dependent rows and notifications."""
    database = Database(roles.url_of("operator"), "treadle")

    def done(action: Action, *ids: Any, priority: int | None = None) -> bool:
        changes = database.run(operation_queries.change_jobs(action, ids, "ada", "because", priority))
        return [each.outcome for each in changes] == ["done"] * len(ids)

    first, second = (queue.enqueue("a", {}, key="k") for _ in range(2))
    assert done(Action.CANCEL, first)
    assert [job.id for job in queue.claim(["a"])] == [second], "the next job of the key is unblocked"
    queue.event(second, "published")
    queue.fail(second, "why", final=True)
    assert done(Action.RETRY, first, second)
    later = queue.enqueue("a", {}, delay="1h")
    assert done(Action.RUN_NOW, later)
    assert done(Action.PRIORITY, later, priority=999)
    assert queue.claim(["a"], 1)[0].id == later
    assert done(Action.CANCEL, second)
    assert done(Action.DELETE, second)
    assert one(owner, "select count(*) from events") == one(owner, "select count(*) from errors") == 0
    assert database.run(operation_queries.pause("a", None))
    assert database.run(operation_queries.resume("a", None))
    lines = owner.execute("select action, actor, reason, db_user from audit order by id").fetchall()
    user = f"{roles.prefix}_user_operator"
    asked = ["cancel", "retry", "retry", "run_now", "priority", "cancel", "delete"]
    assert lines[:7] == [(action, "ada", "because", user) for action in asked]
    assert lines[7:] == [(action, user, None, user) for action in ("pause", "resume")]
    database.close()


def test_only_an_operator_that_may_enqueue_edits_and_copies_jobs(
    roles: Roles, queue: JobQueue, owner: Connection[Any]
) -> None:
    job = queue.enqueue("films", {"n": 1})
    operator = roles.connect("operator")
    edit, copy = "select edit_job(%s, '{\"n\": 2}')", "select outcome from copy_job(%s)"
    for statement in (edit, copy):
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="roles that may enqueue") as refused:
            operator.execute(statement, [job])
        assert "treadle_enqueue" in (refused.value.diag.message_hint or "")
    owner.execute(f"grant {roles.prefix}_enqueue to {roles.prefix}_user_operator")
    assert (one(operator, edit, job), one(operator, copy, job)) == ("done", "done")


def test_an_operator_changes_the_concurrency_of_a_worker_and_a_viewer_cannot(
    roles: Roles, queue: JobQueue, owner: Connection[Any]
) -> None:
    owner.execute("select register_worker('w', '1 hour', '{a}', null, 5)")
    refused = run_treadle("concurrency", "w", 9, "--database-url", roles.url_of("viewer"))
    assert refused.exit_code == 1
    assert "permission denied for function set_concurrency" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert one(owner, "select count(*) from worker_concurrency") == 0
    assert "Set the concurrency of w to 9." in output_of(
        "concurrency", "w", 9, "--database-url", roles.url_of("operator")
    )
    assert one(owner, "select db_user from audit") == f"{roles.prefix}_user_operator"

"""What operators do with a group of errors: retry, cancel, mute; and what is deleted."""

import time
from datetime import timedelta
from typing import Any

import pytest
from psycopg import Connection

from tests.support.error_groups import count_now, fail, groups
from treadle import InvalidArgument, JobQueue, Retries, Treadle
from treadle.db.queries import error_groups as queries
from treadle.operations.bulk import Counts
from treadle.operations.error_groups import GroupChange, count_jobs, get_details
from treadle.words.changes import Action
from treadle.words.errors import UnknownErrorGroup
from treadle.words.overview import Total
from treadle.words.status import Status


def group_id(app: Treadle, title: str = "ValueError: no") -> int:
    return groups(app)[title].id


def statuses(connection: Connection[Any]) -> dict[str, int]:
    return dict(connection.execute("select status, count(*) from jobs group by status").fetchall())


def test_the_failed_jobs_of_a_group_are_retried_and_no_others(
    app: Treadle, queue: JobQueue, connection: Connection[Any]
) -> None:
    fail(queue, ["ValueError: no"] * 3)
    fail(queue, ["TypeError: no"] * 2)
    fail(queue, ["ValueError: no"], retries=True)
    count_now(app)
    target = group_id(app)
    assert count_jobs(app.database, target, Status.FAILED) == Total(3, exact=True)
    assert list(GroupChange(app.database, target, Action.RETRY, "ann"))[-1] == Counts(done=3)
    assert statuses(connection) == {"failed": 2, "pending": 4}
    rows = connection.execute("select actor, action, reason from audit").fetchall()
    assert rows == [("ann", "retry", f"error group {target}")] * 3
    assert list(GroupChange(app.database, target, Action.RETRY, "ann"))[-1] == Counts()


def test_the_jobs_that_wait_for_another_attempt_are_cancelled_and_no_others(
    app: Treadle, queue: JobQueue, connection: Connection[Any]
) -> None:
    fail(queue, ["ValueError: no"] * 2, retries=True)
    fail(queue, ["TypeError: no"], retries=True)
    fail(queue, ["ValueError: no"])
    queue.enqueue("a")
    count_now(app)
    target = group_id(app)
    assert [each.status for each in get_details(app.database, target).pending.jobs] == [Status.PENDING] * 2
    assert list(GroupChange(app.database, target, Action.CANCEL, "ann", "too many"))[-1] == Counts(done=2)
    assert statuses(connection) == {"failed": 1, "pending": 2, "cancelled": 2}


def test_a_job_belongs_to_the_group_of_its_last_failure(app: Treadle, queue: JobQueue) -> None:
    queue.enqueue("a", retry=Retries(1))
    queue.fail(queue.claim(["a"])[0], "ValueError: first", delay=0)
    queue.fail(queue.claim(["a"])[0], "ValueError: last")
    count_now(app)
    assert count_jobs(app.database, group_id(app, "ValueError: first"), Status.FAILED).jobs == 0
    assert count_jobs(app.database, group_id(app, "ValueError: last"), Status.FAILED).jobs == 1


def test_jobs_are_changed_in_chunks_and_one_that_fails_again_meanwhile_is_not_retried_twice(
    app: Treadle, queue: JobQueue, connection: Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("treadle.operations.error_groups.CHUNK", 2)
    fail(queue, ["ValueError: no"] * 5)
    count_now(app)
    seen = []
    for counts in GroupChange(app.database, group_id(app), Action.RETRY, "ann"):
        seen.append(counts.done)
        for job in queue.claim(["a"]):  # and they fail again at once
            queue.fail(job, "ValueError: no", final=True)
        count_now(app)
        assert len(seen) < 10
    assert seen == [2, 4, 5]
    assert statuses(connection) == {"failed": 5}


def test_a_search_through_many_failures_goes_on_in_steps(
    app: Treadle, queue: JobQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of jobs that completed in a later attempt, the failures are passed over, LOOK at a time."""
    monkeypatch.setattr(queries, "LOOK", 4)
    fail(queue, ["ValueError: no"])
    for _ in range(10):
        queue.enqueue("a")
        queue.fail(queue.claim(["a"])[0], "ValueError: no", delay=0)
        (job,) = queue.claim(["a"])
        queue.start(job)
        queue.complete(job)
    count_now(app)
    target = group_id(app)
    page = app.database.read(queries.find_jobs(target, Status.FAILED))
    assert (page.jobs, page.examined) == ([], 4)
    assert page.next is not None
    assert count_jobs(app.database, target, Status.FAILED) == Total(1, exact=True)
    assert list(GroupChange(app.database, target, Action.RETRY, "ann"))[-1] == Counts(done=1)


@pytest.mark.parametrize("wrong", [0, -1, 2**31, True, "7", None])
def test_a_group_that_does_not_exist_is_refused(app: Treadle, wrong: Any) -> None:
    with pytest.raises(UnknownErrorGroup, match="there is no error group"):
        get_details(app.database, wrong)
    with pytest.raises(UnknownErrorGroup, match="there is no error group 17; it is deleted 30 days after"):
        list(GroupChange(app.database, 17, Action.RETRY, "ann"))
    with pytest.raises(UnknownErrorGroup):
        app.database.run(queries.mute(17))


@pytest.mark.parametrize("cursor", ["", "x", "2026-01-01~x", "2026-01-01~0199b1c2-7a3e-7c51-9d4b-2f6a8e0c1d35", 7])
def test_a_wrong_cursor_is_refused(cursor: Any) -> None:
    with pytest.raises(InvalidArgument, match="after must be the cursor of a page"):
        queries.Cursor.read(cursor)


def test_only_retry_and_cancel_apply_to_a_group(app: Treadle) -> None:
    with pytest.raises(InvalidArgument, match="can be retried or cancelled, got delete"):
        GroupChange(app.database, 1, Action.DELETE, "ann")


# Muting


def test_a_group_is_muted_until_it_is_unmuted(app: Treadle, queue: JobQueue, connection: Connection[Any]) -> None:
    fail(queue, ["ValueError: no"])
    count_now(app)
    target = group_id(app)
    assert app.database.run(queries.mute(target, actor="ann", reason="known"))
    fail(queue, ["ValueError: no"])
    count_now(app)
    group = groups(app)["ValueError: no"]
    assert group.failures == 2
    assert group.muted is not None
    assert (group.muted.by, group.muted.reason, group.muted.until) == ("ann", "known", None)
    assert app.database.run(queries.unmute(target))
    assert not app.database.run(queries.unmute(target))
    assert groups(app)["ValueError: no"].muted is None
    actions = connection.execute("select action, job_type, reason from audit order by id").fetchall()
    assert actions == [("mute errors", "a", "known"), ("unmute errors", "a", None)]


def test_a_group_is_muted_for_a_time(app: Treadle, queue: JobQueue, connection: Connection[Any]) -> None:
    fail(queue, ["ValueError: no"])
    count_now(app)
    app.database.run(queries.mute(group_id(app), timedelta(days=1)))
    assert groups(app)["ValueError: no"].muted is not None
    connection.execute("update error_groups set muted_until = now()")
    assert groups(app)["ValueError: no"].muted is None
    for wrong in (timedelta(0), timedelta(days=367)):
        with pytest.raises(InvalidArgument, match="more than 0 seconds and at most 366 days"):
            queries.mute(1, wrong)


def test_a_group_is_muted_until_a_new_version_fails(app: Treadle, queue: JobQueue, connection: Connection[Any]) -> None:
    def deploy(version: str) -> None:
        connection.execute("insert into worker_versions (worker_id, version) values ('worker-1', %s)", [version])

    deploy("v1")
    fail(queue, ["ValueError: no"])
    deploy("v2")  # it runs already, and has not failed yet
    count_now(app)
    app.database.run(queries.mute(group_id(app), until_new_version=True))
    fail(queue, ["ValueError: no"])
    count_now(app)
    muted = groups(app)["ValueError: no"].muted
    assert muted is not None
    assert muted.until_new_version
    deploy("v3")
    fail(queue, ["ValueError: no"])
    count_now(app)
    group = groups(app)["ValueError: no"]
    assert group.muted is None
    assert group.versions == ["v3", "v2", "v1"]


def test_failures_of_muted_groups_are_counted_for_alarms(app: Treadle, queue: JobQueue) -> None:
    fail(queue, ["ValueError: no"] * 3)
    fail(queue, ["TypeError: no"] * 2)
    fail(queue, ["ValueError: no"], "b")
    count_now(app)
    assert app.database.read(queries.count_muted(60)) == {}
    app.database.run(queries.mute(next(each.id for each in groups(app, job_type="a").values() if each.failures == 3)))
    assert app.database.read(queries.count_muted(60)) == {"a": 3}
    time.sleep(0.02)
    assert app.database.read(queries.count_muted(0.01)) == {}


# Pruning


def test_groups_are_deleted_30_days_after_their_last_failure(
    app: Treadle, queue: JobQueue, connection: Connection[Any]
) -> None:
    connection.execute("insert into worker_versions (worker_id, version) values ('worker-1', 'v1')")
    fail(queue, ["ValueError: no"] * 3)
    fail(queue, ["TypeError: no"])
    count_now(app)
    assert app.database.run(queries.prune()) == 0
    connection.execute("update error_groups set last_seen = now() - interval '31 days' where exception = 'ValueError'")
    assert connection.execute("select prune_error_groups(p_limit => 2)").fetchone() == (0,)
    assert app.database.run(queries.prune()) == 1
    assert list(groups(app)) == ["TypeError: no"]
    for table in ("grouped_errors", "error_group_hours", "error_group_versions"):
        assert connection.execute(f"select count(*) from {table}").fetchone() == (1,), table


def test_old_hours_and_versions_of_gone_workers_are_deleted(
    app: Treadle, queue: JobQueue, connection: Connection[Any]
) -> None:
    connection.execute(
        "insert into worker_versions values ('gone', now() - interval '8 days', 'v1'), ('x', now(), 'v2')"
    )
    fail(queue, ["ValueError: no"])
    count_now(app)
    connection.execute("update error_group_hours set hour = hour - interval '8 days'")
    app.database.run(queries.prune())
    assert connection.execute("select count(*) from error_group_hours").fetchone() == (0,)
    assert connection.execute("select version from worker_versions").fetchall() == [("v2",)]

"""Workflows and batches, while transactions overlap: in forced order, and at random compared with an oracle."""

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg import Connection

from tests.conftest import Connect
from tests.queue.test_dependencies import tick
from tests.queue.test_dependency_races import Graph
from tests.support.waiting import until_waiting_for_lock
from treadle import JobQueue, WorkflowEnded
from treadle.words.status import Status

Rows = Connection[Any]


def open_batch(connection: Rows, *callbacks: dict[str, bool]) -> list[UUID]:
    """The ids of the callbacks, and that of the batch at last."""
    blocks = [
        {"job_type": "a", "data": ["{}"], "max_attempts": 100, "after": [{"nth": -1, **when}]} for when in callbacks
    ]
    found = connection.execute(
        "select id from enqueue_workflow('batch', %s, '{\"is_open\": true}') order by nth", [json.dumps(blocks)]
    )
    return [row[0] for row in found]


def close(connection: Rows, batch: UUID) -> None:
    assert connection.execute("select close_workflow(%s)", [batch]).fetchone() == (True,)


def counts(connection: Rows, batch: UUID) -> tuple[int, ...]:
    """jobs, completed, failed, cancelled."""
    connection.execute("select roll_up_workflows('-infinity')")
    row = connection.execute(
        "select jobs, completed, failed, cancelled from workflows where id = %s", [batch]
    ).fetchone()
    assert row
    assert connection.execute("select count(*) from member_changes").fetchone() == (0,)
    return tuple(row)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_two_jobs_that_end_at_the_same_moment(
    queue: JobQueue, connect: Connect, connection: Rows, order: tuple[int, int]
) -> None:
    (batch,) = open_batch(connection)
    queue.enqueue_many("a", [{}] * 2, workflow=batch)
    close(connection, batch)
    ending = [connect(autocommit=False), connect(autocommit=False)]
    for each, row in zip(ending, queue.claim(["a"]), strict=True):
        each.execute("set lock_timeout = '2s'")
        JobQueue(each, "worker-1").complete(row)
    for nth in order:
        assert queue.get(batch).status == Status.PENDING
        ending[nth].commit()
    tick(queue)
    assert queue.get(batch).status == Status.COMPLETED
    assert counts(connection, batch) == (2, 2, 0, 0)
    assert connection.execute("select count(*) from dependency_checks").fetchone() == (0,)


@pytest.mark.parametrize("how", ["commit", "rollback"])
def test_a_batch_does_not_end_while_a_transaction_adds_to_it(
    queue: JobQueue, connect: Connect, connection: Rows, how: str
) -> None:
    (batch,) = open_batch(connection)
    queue.enqueue("a", workflow=batch)
    adding = connect(autocommit=False)
    JobQueue(adding, "w").enqueue("a", workflow=batch)
    close(connection, batch)  # does not wait
    queue.complete(queue.claim(["a"])[0])
    tick(queue)
    assert queue.get(batch).status == Status.PENDING
    getattr(adding, how)()
    tick(queue)
    if how == "commit":
        assert queue.get(batch).status == Status.PENDING
        queue.complete(queue.claim(["a"])[0])
    assert queue.get(batch).status == Status.COMPLETED


def test_nothing_is_added_to_a_batch_that_just_ends(queue: JobQueue, connect: Connect, connection: Rows) -> None:
    (batch,) = open_batch(connection)
    ending = connect(autocommit=False)
    ending.execute("select close_workflow(%s)", [batch])
    ending.execute("set constraints all immediate")  # it ends now, and commits later
    adding = connect()
    adding.execute("set lock_timeout = '200ms'")
    with pytest.raises(Exception, match="lock timeout"):
        JobQueue(adding, "w").enqueue("a", workflow=batch)
    ending.commit()
    with pytest.raises(WorkflowEnded):
        JobQueue(adding, "w").enqueue("a", workflow=batch)


def test_what_is_added_while_a_batch_is_cancelled_is_cancelled(
    queue: JobQueue, connect: Connect, connection: Rows
) -> None:
    (batch,) = open_batch(connection)
    adding = connect(autocommit=False)
    added = JobQueue(adding, "w").enqueue("a", workflow=batch)
    queue.cancel(batch, "not wanted")
    adding.commit()
    tick(queue)
    assert queue.get(added).status == Status.CANCELLED
    assert queue.get(added).last_error == "not wanted"


def test_ends_by_whatever_statement_are_counted(queue: JobQueue, connection: Rows) -> None:
    (batch,) = open_batch(connection)
    jobs = queue.enqueue_many("a", [{}] * 6, workflow=batch)
    change = "update jobs set status = %s where id = %s"
    connection.execute(change, ["completed", jobs[0]])
    connection.execute(change, ["failed", jobs[1]])
    connection.execute("delete from jobs where id = any (%s)", [[jobs[1], jobs[2]]])
    connection.execute(change, ["completed", jobs[3]])
    connection.execute(change, ["failed", jobs[3]])
    connection.execute(change, ["failed", jobs[4]])
    queue.retry(jobs[4])
    assert counts(connection, batch) == (6, 1, 2, 1)
    close(connection, batch)
    queue.cancel(jobs[4])
    assert queue.get(batch).status == Status.PENDING
    queue.complete(queue.claim(["a"])[0])
    assert queue.get(batch).status == Status.FAILED
    assert counts(connection, batch) == (6, 2, 2, 2)


def test_jobs_that_end_on_an_older_snapshot(queue: JobQueue, connect: Connect, connection: Rows) -> None:
    (batch,) = open_batch(connection)
    queue.enqueue("a", workflow=batch)
    close(connection, batch)
    (row,) = queue.claim(["a"])
    ending = connect(autocommit=False)
    ending.execute("set transaction isolation level repeatable read")
    JobQueue(ending, "worker-1").complete(row)
    ending.commit()
    tick(queue)
    assert queue.get(batch).status == Status.COMPLETED


def test_a_workflow_whose_last_jobs_are_locked_is_looked_at_later(
    queue: JobQueue, connect: Connect, connection: Rows
) -> None:
    (batch,) = open_batch(connection)
    jobs = queue.enqueue_many("a", [{}] * 2, workflow=batch)
    locking = connect(autocommit=False)
    locking.execute("select from jobs where id = any (%s) for update", [jobs])
    close(connection, batch)
    locking.rollback()
    for row in queue.claim(["a"]):
        queue.complete(row)
    tick(queue)
    assert queue.get(batch).status == Status.COMPLETED


def test_one_of_the_last_jobs_is_watched_and_the_others_end_without_looking(queue: JobQueue, connection: Rows) -> None:
    (batch,) = open_batch(connection)
    queue.enqueue_many("a", [{}] * 50, workflow=batch)
    close(connection, batch)
    connection.execute("alter table workflows set (autovacuum_enabled = off)")
    changes = "select xmin::text from workflows where id = %s"
    before = connection.execute(changes, [batch]).fetchone()
    for row in queue.claim(["a"], 49):
        queue.complete(row)
    assert connection.execute(changes, [batch]).fetchone() == before  # no row that every completion updates
    connection.execute("alter table workflows reset (autovacuum_enabled)")
    queue.complete(queue.claim(["a"])[0])
    assert queue.get(batch).status == Status.COMPLETED


def complete_later(connect: Connect, queue: JobQueue) -> None:
    """On an older snapshot, so that a tick has to decide what this means for others."""
    claimed = queue.claim(["a"], 100)
    ending = connect(autocommit=False)
    ending.execute("set transaction isolation level repeatable read")
    JobQueue(ending, "worker-1").complete_many(claimed)
    ending.commit()


def test_an_error_about_one_job_does_not_stop_the_others(queue: JobQueue, connect: Connect, connection: Rows) -> None:
    plan = {"job_type": "a", "begun": "x"}
    block = {"job_type": "workflow", "workflow": 1, "part": 0, "data": ["{}"], "plan": plan, "after": []}
    connection.execute("select enqueue_workflow('poison', %s)", [json.dumps([block])])
    first = queue.enqueue("a")
    last = queue.enqueue("b", after=first)
    complete_later(connect, queue)
    connection.execute("update dependency_checks set look_at = now()")
    tick(queue)
    assert [row.id for row in queue.claim(["b"])] == [last]
    errors = connection.execute("select error from dependency_checks").fetchall()
    assert all("invalid input syntax" in error for (error,) in errors)
    assert errors


def test_what_cannot_be_decided_does_not_keep_others_from_being_decided(
    queue: JobQueue, connect: Connect, connection: Rows
) -> None:
    waiting = [queue.enqueue("b", after=each) for each in queue.enqueue_many("a", [{}] * 14)]
    locking = connect(autocommit=False)
    locking.execute("select from jobs where id = any (%s) for update", [waiting])
    complete_later(connect, queue)
    tick(queue)
    tick(queue)
    last = queue.enqueue("b", after=queue.enqueue("a"))
    complete_later(connect, queue)
    for _ in range(3):
        tick(queue)
    assert [row.id for row in queue.claim(["b"], 15)] == [last]
    locking.rollback()
    for _ in range(3):
        tick(queue)
    assert len(queue.claim(["b"], 15)) == 14


def test_cancelling_a_batch_waits_for_nobody(queue: JobQueue, connect: Connect, connection: Rows) -> None:
    (batch,) = open_batch(connection)
    jobs = queue.enqueue_many("a", [{}] * 3, workflow=batch)
    locking = connect(autocommit=False)
    locking.execute("select from jobs where id = %s for update", [jobs[1]])
    limited = connect()
    limited.execute("set lock_timeout = '2s'")
    JobQueue(limited, "w").cancel(batch)
    limited.execute("select tick('0')")
    assert [queue.get(each).status for each in jobs] == [Status.CANCELLED, Status.PENDING, Status.CANCELLED]
    locking.rollback()
    tick(queue)
    assert queue.get(jobs[1]).status == Status.CANCELLED
    assert counts(connection, batch) == (3, 0, 0, 3)


def test_cancelling_a_batch_whose_jobs_are_all_locked_goes_on_later(
    queue: JobQueue, connect: Connect, connection: Rows
) -> None:
    (batch,) = open_batch(connection)
    jobs = queue.enqueue_many("a", [{}] * 2, workflow=batch)
    tick(queue)
    locking = connect(autocommit=False)
    locking.execute("select from jobs where id = any (%s) for update", [jobs])
    queue.cancel(batch)
    locking.rollback()
    tick(queue)
    assert [queue.get(each).status for each in jobs] == [Status.CANCELLED] * 2


def test_jobs_are_added_in_read_committed_transactions_only(
    queue: JobQueue, connect: Connect, connection: Rows
) -> None:
    (batch,) = open_batch(connection)
    adding = connect(autocommit=False)
    adding.execute("set transaction isolation level repeatable read")
    with pytest.raises(Exception, match="in a transaction that is repeatable read"):
        JobQueue(adding, "w").enqueue("a", workflow=batch)
    adding.rollback()
    adding.execute("set transaction isolation level repeatable read")
    open_batch(adding)  # a new one can be enqueued
    adding.commit()


def test_what_is_added_while_a_batch_is_deleted_is_on_its_own(
    queue: JobQueue, connect: Connect, connection: Rows
) -> None:
    (batch,) = open_batch(connection)
    adding, deleting = connect(autocommit=False), connect()
    JobQueue(adding, "w").enqueue("a", workflow=batch)
    with ThreadPoolExecutor() as pool:
        deleted = pool.submit(lambda: deleting.execute("delete from jobs where id = %s", [batch]))
        try:
            until_waiting_for_lock(connection)
        finally:
            adding.commit()
        deleted.result()
    assert connection.execute("select flags from jobs").fetchall() == [(0,)]
    for table in ("dependencies", "workflows", "member_changes"):
        assert connection.execute(f"select count(*) from {table}").fetchone() == (0,), table


def wait_for_signal(connection: Rows, *after: UUID) -> tuple[UUID, UUID]:
    edges = [{"id": str(each)} for each in after]
    block = {"job_type": "signal", "signal": True, "part": 0, "data": ['{"signal": "go"}'], "after": edges}
    found = connection.execute("select id from enqueue_workflow('approval', %s) order by nth", [json.dumps([block])])
    step, workflow = [row[0] for row in found]
    return step, workflow


def test_a_signal_that_is_sent_while_its_step_begins_to_wait(
    queue: JobQueue, connect: Connect, connection: Rows
) -> None:
    step, workflow = wait_for_signal(connection, queue.enqueue("a"))
    sending = connect(autocommit=False)
    send = "select send_signal(%s, 'go', '7')"
    assert sending.execute(send, [workflow]).fetchone() == ("taken",)
    queue.complete(queue.claim(["a"])[0])  # it has the row locked, so this is decided later
    assert queue.get(step).status == Status.PENDING
    sending.commit()
    tick(queue)
    assert (queue.get(step).status, queue.get(step).result) == (Status.COMPLETED, 7)
    assert queue.get(workflow).status == Status.COMPLETED
    assert connection.execute(send, [workflow]).fetchone() == ("too late",)


def test_of_two_signals_at_the_same_moment_one_is_taken(queue: JobQueue, connect: Connect, connection: Rows) -> None:
    step, _ = wait_for_signal(connection)
    first, second = connect(autocommit=False), connect()
    assert first.execute("select send_signal(%s, 'go', '1')", [step]).fetchone() == ("taken",)
    with ThreadPoolExecutor() as pool:
        sent = pool.submit(lambda: second.execute("select send_signal(%s, 'go', '2')", [step]).fetchone())
        try:
            until_waiting_for_lock(connection)
        finally:
            first.commit()  # otherwise the other would wait for ever
        assert sent.result() == ("too late",)
    assert queue.get(step).result == 1


def test_a_signal_that_is_rolled_back_was_not_sent(queue: JobQueue, connect: Connect, connection: Rows) -> None:
    step, workflow = wait_for_signal(connection)
    sending = connect(autocommit=False)
    sending.execute("select send_signal(%s, 'go', '1')", [step])
    sending.rollback()
    assert queue.get(step).status == Status.PENDING
    assert connection.execute("select send_signal(%s, 'go', '2')", [workflow]).fetchone() == ("taken",)
    assert queue.get(workflow).status == Status.COMPLETED


class BatchGraph(Graph):
    """Random jobs, some of which are part of a batch, with error handlers. Only jobs whose end does not depend on the
    order of events are part of it, or have error handlers."""

    def __init__(self, connect: Connect, connection: Rows, seed: int, nodes: int) -> None:
        super().__init__(connect, seed, nodes)
        *callbacks, self.batch = open_batch(connection, {"ok_to_fail": True}, {}, {"if_failed": True})
        self.callbacks = dict(zip(("ended", "completed", "failed"), callbacks, strict=True))
        self.fate |= dict.fromkeys(callbacks, "complete")
        self.members: set[UUID] = set()
        self.unclear: set[UUID] = set()  # they come after a job that may not be needed

    def add(self, n: int) -> None:
        candidates = self.known + self.added[n]
        clear = [each for each in candidates if each not in self.unclear]
        handles = bool(clear) and self.rng.random() < 0.2
        if handles:
            edges = [(self.rng.choice(clear), "failed")]
        else:
            chosen = self.rng.sample(candidates, min(len(candidates), self.rng.choice([0, 1, 1, 2, 3])))
            edges = [(each, "ended" if self.rng.random() < 0.3 else "completed") for each in chosen]
        unclear = any(each in self.unclear for each, _ in edges)
        is_member = not unclear and self.rng.random() < 0.6
        self.enqueue(n, edges, **({"workflow": self.batch} if is_member else {}))
        job_id = self.added[n][-1]
        if unclear or handles:
            self.unclear.add(job_id)
        if is_member:
            self.members.add(job_id)

    def outcome(self, job_id: UUID) -> str:
        for parent, needs in self.after[job_id]:
            found = self.outcome(parent)
            if needs == "failed" and found == "completed":
                return "skipped"
            if needs == "completed" and found != "completed":
                return "skipped" if found == "skipped" else "cancelled"
        return "failed" if self.fate[job_id] == "fail" else "completed"

    def expected(self, job_id: UUID) -> str:
        found = self.outcome(job_id)
        return "cancelled" if found == "skipped" else found


@pytest.mark.parametrize("seed", range(6))
def test_random_batches_end_as_an_oracle_predicts(connect: Connect, connection: Rows, seed: int) -> None:
    graph = BatchGraph(connect, connection, seed, nodes=40)
    connection.execute("set lock_timeout = '50ms'")
    is_closed = False
    for nth in range(600):
        graph.step()
        if nth >= 500 and not is_closed:
            graph.nodes = 0
            with suppress(
                psycopg.errors.LockNotAvailable
            ):  # a claim in an open transaction has decided about the batch
                close(connection, graph.batch)
                is_closed = True
    for each in graph.connections:
        each.commit()
    if not is_closed:
        close(connection, graph.batch)
    graph.finish()
    found = dict(connection.execute("select id, status from jobs").fetchall())
    ends = [graph.outcome(each) for each in graph.members & set(graph.known)]
    fails = "failed" in ends or "cancelled" in ends
    expected = {job_id: graph.expected(job_id) for job_id in graph.known}
    expected |= {graph.batch: "failed" if fails else "completed", graph.callbacks["ended"]: "completed"}
    expected |= {graph.callbacks["failed" if fails else "completed"]: "completed"}
    expected |= {graph.callbacks["completed" if fails else "failed"]: "cancelled"}
    assert found == expected
    completed = ends.count("completed") + ends.count("skipped")
    assert counts(connection, graph.batch) == (len(ends), completed, ends.count("failed"), ends.count("cancelled"))
    assert connection.execute("select count(*) from dependency_checks").fetchone() == (0,)

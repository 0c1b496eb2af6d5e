"""Jobs that wait for others, while transactions overlap: in forced order, and at random compared with an oracle."""

import random
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg import Connection

from tests.conftest import Connect
from tests.queue.test_dependencies import tick
from treadle import JobQueue, JobRow, Retries, if_failed, ok_to_fail
from treadle.words.status import Status

Rows = Connection[Any]


def two(queue: JobQueue) -> tuple[UUID, dict[UUID, JobRow]]:
    """A job that waits for two others, which are claimed."""
    first = queue.enqueue_many("a", [{}] * 2)
    last = queue.enqueue("b", after=first)
    return last, {row.id: row for row in queue.claim(["a"])}


def next_claim(queue: JobQueue) -> list[UUID]:
    tick(queue)
    return [row.id for row in queue.claim(["a", "b"], 100)]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_two_that_end_at_the_same_moment_free_the_job_once(
    queue: JobQueue, connect: Connect, connection: Rows, order: tuple[int, int]
) -> None:
    last, rows = two(queue)
    ending = [connect(autocommit=False), connect(autocommit=False)]
    for each, row in zip(ending, rows.values(), strict=True):
        each.execute("set lock_timeout = '2s'")
        JobQueue(each, "worker-1").complete(row)
    for nth in order:
        assert next_claim(queue) == []
        ending[nth].commit()
    assert next_claim(queue) == [last]
    assert next_claim(queue) == []
    assert connection.execute("select count(*) from dependency_checks").fetchone() == (0,)


@pytest.mark.parametrize("how", ["commit", "rollback"])
def test_a_job_that_ends_in_a_transaction_that_stays_open(queue: JobQueue, connect: Connect, how: str) -> None:
    last, rows = two(queue)
    one, other = rows.values()
    ending = connect(autocommit=False)
    JobQueue(ending, "worker-1").complete(one)
    queue.complete(other)
    assert next_claim(queue) == []
    getattr(ending, how)()
    if how == "rollback":
        assert next_claim(queue) == []
        queue.complete(one)
    assert next_claim(queue) == [last]


def test_an_open_end_does_not_keep_the_other_from_ending(queue: JobQueue, connect: Connect) -> None:
    _, rows = two(queue)
    one, other = rows.values()
    ending = connect(autocommit=False)
    ending.execute("set lock_timeout = '2s'")
    JobQueue(ending, "worker-1").complete(one)
    limited = connect()
    limited.execute("set lock_timeout = '2s'")
    JobQueue(limited, "worker-1").complete(other)
    ending.commit()


def test_a_job_that_ends_while_another_that_waits_for_it_is_enqueued(queue: JobQueue, connect: Connect) -> None:
    first = queue.enqueue("a")
    (row,) = queue.claim(["a"])
    enqueueing = connect(autocommit=False)
    second = JobQueue(enqueueing, "w").enqueue("b", after=first)
    queue.complete(row)
    enqueueing.commit()
    assert next_claim(queue) == [second]


IMMEDIATE = "set constraints all immediate"
AT_COMMIT = "set constraints treadle.check_at_commit, treadle.confirm_blocked deferred"


@pytest.mark.parametrize("what", ["after", "key"])
@pytest.mark.parametrize(
    ("settings", "holds_up"), [("", False), (IMMEDIATE, True), (f"{IMMEDIATE}; {AT_COMMIT}", False)]
)
def test_an_open_enqueue_holds_up_another_job_only_if_it_is_decided_before_the_commit(
    queue: JobQueue, connect: Connect, what: str, settings: str, holds_up: bool
) -> None:
    """docs/workflows.md describes both."""
    first = queue.enqueue("a", key="k")
    queue.claim(["a"])
    enqueueing = connect(autocommit=False)
    enqueueing.execute(settings.encode())
    other = JobQueue(enqueueing, "w")
    if what == "after":
        other.enqueue("b", after=first)
    else:
        other.enqueue("b", key="k")
    limited = connect()
    limited.execute("set lock_timeout = '0.5s'")
    if holds_up:
        with pytest.raises(psycopg.errors.LockNotAvailable):
            limited.execute("select complete_job(%s)", [first])
    else:
        limited.execute("select complete_job(%s)", [first])
    enqueueing.commit()
    assert queue.get(first).status == ("claimed" if holds_up else "completed")


def test_a_retry_does_not_wait_for_a_stopped_job_that_is_locked(queue: JobQueue, connect: Connect) -> None:
    first = queue.enqueue("a")
    second = queue.enqueue("b", after=first)
    queue.fail(queue.claim(["a"])[0], "no", final=True)
    locking = connect(autocommit=False)
    locking.execute("select from jobs where id = %s for update", [second])
    retrying = connect()
    retrying.execute("set lock_timeout = '2s'")
    JobQueue(retrying, "w").retry(first)
    locking.rollback()
    assert next_claim(queue) == [first]
    assert queue.get(second).status == Status.PENDING


def test_an_enqueue_that_is_rolled_back_leaves_nothing(queue: JobQueue, connect: Connect, connection: Rows) -> None:
    first = queue.enqueue("a")
    enqueueing = connect(autocommit=False)
    JobQueue(enqueueing, "w").enqueue("b", after=first)
    enqueueing.rollback()
    queue.complete(queue.claim(["a"])[0])
    assert connection.execute("select count(*) from dependencies").fetchone() == (0,)
    assert connection.execute("select count(*) from dependency_checks").fetchone() == (0,)


@pytest.mark.parametrize("which", ["the job that waits", "the job that is waited for"])
def test_a_row_that_somebody_has_locked_is_looked_at_later(queue: JobQueue, connect: Connect, which: str) -> None:
    last, rows = two(queue)
    one, other = sorted(rows.values(), key=lambda row: row.id)
    locking = connect(autocommit=False)
    locked = last if which == "the job that waits" else other.id
    locking.execute("select from jobs where id = %s for update", [locked])
    queue.complete(one)
    assert next_claim(queue) == []
    locking.rollback()
    queue.complete(other)
    assert next_claim(queue) == [last]


def test_a_new_job_that_somebody_has_locked_is_looked_at_later(queue: JobQueue, connect: Connect) -> None:
    enqueueing = connect(autocommit=False)
    enqueueing.execute("set transaction isolation level repeatable read")
    own = JobQueue(enqueueing, "w")
    second = own.enqueue("b", after=queue.enqueue("a"))
    enqueueing.commit()  # on an older snapshot, the decision is left to the next claim
    locking = connect(autocommit=False)
    locking.execute("select from jobs where id = %s for update", [second])
    queue.complete(queue.claim(["a"])[0])
    locking.rollback()
    assert next_claim(queue) == [second]


def test_a_job_that_is_cancelled_while_it_is_freed_stays_cancelled(queue: JobQueue, connect: Connect) -> None:
    first = queue.enqueue("a")
    second = queue.enqueue("b", after=first)
    cancelling = connect(autocommit=False)
    JobQueue(cancelling, "w").cancel(second)
    queue.complete(queue.claim(["a"])[0])
    cancelling.commit()
    assert next_claim(queue) == []
    assert queue.get(second).status == Status.CANCELLED


class Graph:
    """Random jobs that wait for others, ended at random by three connections with open transactions."""

    def __init__(self, connect: Connect, seed: int, nodes: int) -> None:
        self.rng = random.Random(seed)
        self.connections = [connect(autocommit=False) for _ in range(3)]
        self.queues = [JobQueue(each, f"w{n}") for n, each in enumerate(self.connections)]
        for each in self.connections:
            each.execute("set lock_timeout = '50ms'")
            each.commit()
        self.nodes = nodes
        self.after: dict[UUID, list[tuple[UUID, str]]] = {}  # what each waits for, and how that has to end
        self.fate: dict[UUID, str] = {}
        self.known: list[UUID] = []
        self.added: list[list[UUID]] = [[], [], []]
        self.held: list[list[JobRow]] = [[], [], []]
        self.claims: list[list[JobRow]] = [[], [], []]
        self.started: set[UUID] = set()

    def add(self, n: int) -> None:
        """Some are enqueued while others run already."""
        candidates = self.known + self.added[n]
        chosen = self.rng.sample(candidates, min(len(candidates), self.rng.choice([0, 1, 1, 2, 3, 6])))
        edges = [(each, "ended" if self.rng.random() < 0.3 else "completed") for each in chosen]
        self.enqueue(n, edges)

    def enqueue(self, n: int, edges: list[tuple[UUID, str]], **options: Any) -> None:
        ways = {"completed": lambda each: each, "ended": ok_to_fail, "failed": if_failed}
        after = [ways[needs](each) for each, needs in edges]
        job_id = self.queues[n].enqueue("a", retry=Retries(99), after=after or None, **options)
        self.after[job_id] = edges
        self.fate[job_id] = self.rng.choice(["complete"] * 6 + ["fail", "retry"])
        self.added[n].append(job_id)

    def claim(self, n: int) -> None:
        rows = self.queues[n].claim(["a"], self.rng.randint(1, 4))
        self.held[n] += rows
        self.claims[n] += rows
        self.started |= {row.id for row in rows}

    def end(self, n: int) -> None:
        row = self.held[n].pop(self.rng.randrange(len(self.held[n])))
        queue, fate = self.queues[n], self.fate[row.id]
        if fate == "fail":
            queue.fail(row, "no", final=True)
        elif fate == "retry" and self.rng.random() < 0.5:
            queue.fail(row, "once more", delay=0)
        else:
            queue.complete(row)

    def step(self) -> None:
        n = self.rng.randrange(3)
        chance = self.rng.random()
        try:
            if chance < 0.3 and len(self.after) < self.nodes:
                self.add(n)
            elif chance < 0.5:
                self.claim(n)
            elif chance < 0.8 and self.held[n]:
                self.end(n)
            else:
                self.connections[n].commit()
                self.known += self.added[n]
                self.added[n] = []
        except psycopg.errors.LockNotAvailable:
            self.roll_back(n)

    def roll_back(self, n: int) -> None:
        self.connections[n].rollback()
        for job_id in self.added[n]:
            del self.after[job_id], self.fate[job_id]
        self.added[n] = []
        self.held[n] = self.still_claimed(n)

    def still_claimed(self, n: int) -> list[JobRow]:
        """Those that it has claimed and not ended, or whose end was rolled back."""
        return list({row.id: row for row in self.claims[n] if self.has(n, row)}.values())

    def has(self, n: int, row: JobRow) -> bool:
        found = self.connections[n].execute(
            "select from jobs where (id, lease, status, worker_id) = (%s, %s, 'claimed', %s)",
            [row.id, row.lease, f"w{n}"],
        )
        return found.fetchone() is not None

    def finish(self) -> None:
        for n, connection in enumerate(self.connections):
            connection.commit()
            connection.autocommit = True
            connection.execute("set lock_timeout = '10s'")
            self.known += self.added[n]
        idle, rounds = 0, 0
        while idle < 3:
            rounds += 1
            assert rounds < 500, "some jobs never end"
            for n in range(3):
                self.held[n] = self.still_claimed(n)
                while self.held[n]:
                    self.end(n)
                self.claim(n)
                self.connections[n].execute("select tick('0')")
            idle = 0 if any(self.held) else idle + 1

    def expected(self, job_id: UUID) -> str:
        for parent, needs in self.after[job_id]:
            if needs == "completed" and self.expected(parent) != "completed":
                return "cancelled"
        return "failed" if self.fate[job_id] == "fail" else "completed"


@pytest.mark.parametrize("seed", range(6))
def test_random_graphs_end_as_an_oracle_predicts(connect: Connect, connection: Rows, seed: int) -> None:
    graph = Graph(connect, seed, nodes=40)
    for _ in range(600):
        graph.step()
    graph.finish()
    found = dict(connection.execute("select id, status from jobs").fetchall())
    assert found == {job_id: graph.expected(job_id) for job_id in graph.known}
    assert connection.execute("select count(*) from dependency_checks").fetchone() == (0,)
    for job_id in found.keys() & graph.started:
        for parent, needs in graph.after[job_id]:
            assert needs != "completed" or found[parent] == "completed", (
                f"{job_id} was claimed before {parent} had completed"
            )

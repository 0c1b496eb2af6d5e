"""The steps of the model-based test: three connections, with open transactions, compared with the oracle (model.py)."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar
from uuid import UUID, uuid4

import psycopg
from chaos.invariants import BROKEN
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from psycopg import Connection

from tests.support.model import CRASH_LIMIT, LIMITED, Job, Oracle, Transaction, difference
from treadle import JobNotFound, JobQueue, JobRow, LeaseLost, Once, Retries, WrongStatus

TYPES, WORKERS = ["a", "b", LIMITED], ["by hand", "leased"]
FACTS = """
    select id, status, job_type, priority, key, unique_key, worker_id,
        run_at > clock_timestamp() + interval '30 minutes', attempts, max_attempts, lease, crashes,
        coalesce(losses, 0)
    from jobs"""
# All connections belong to this one thread, so waiting for a row of another open transaction would never end. Where no
# lock can be in the way, the time-out is long: autovacuum may lock a table for a moment on a loaded machine.
OPTIONS = "-c search_path=treadle,public -c lock_timeout=10s"

FIRST_JOBS = [(None, None), (None, None), ("k", None), ("k", None), ("l", "u"), (None, "u")]
LATE_REPORTS = ["complete", "fail", "release", "start", "cancel"]
# The names of outcomes in settle_jobs, which reports many jobs of one worker.
OUTCOMES = {
    "fail": "retry",
    "final": "failed",
    "cancel": "cancelled",
    "release": "released",
    "crash": "crashed",
    "loss": "lost",
}

actor = st.integers(0, 2)
which = st.integers(0, 30)


class Queue(RuleBasedStateMachine):
    url: ClassVar[str]

    def __init__(self) -> None:
        super().__init__()
        self.connections = [psycopg.connect(self.url, autocommit=True, options=OPTIONS) for _ in range(4)]
        self.observer: Connection[Any] = self.connections.pop()
        self.oracle = Oracle()
        self.claims: list[JobRow] = []
        self.known: list[UUID] = []
        self.actor = 0

    @initialize(worker=st.sampled_from(WORKERS), limit=which)
    def begin_with_first_jobs(self, worker: str, limit: int) -> None:
        self.observer.execute("truncate jobs, errors, lanes, floors, workers, pauses, audit, events, logs, steps")
        self.observer.execute("truncate limits, limit_targets, limit_keys, limit_holders, limit_openings")
        self.observer.execute("truncate unlisted_limits, unlisted_jobs")
        self._set_limit(self.oracle.amount)
        self.observer.execute("select register_worker('leased', '10 seconds', %s)", [TYPES])
        for n, (key, unique) in enumerate(FIRST_JOBS):
            self.enqueue(0, TYPES[n % 3], 100, key, unique, later=False, max_attempts=1 + n % 2)
        self.claim(0, worker, set(TYPES), limit)

    def teardown(self) -> None:
        for each in (*self.connections, self.observer):
            each.close()

    # Transactions

    @rule(actor=actor, how=st.sampled_from(["commit", "commit", "rollback"]))
    def begin_or_end(self, actor: int, how: str) -> None:
        self.actor = actor
        if actor not in self.oracle.open:
            self.connections[actor].execute("begin")
            self.oracle.open[actor] = Transaction()
        else:
            self.connections[actor].execute(how.encode())
            if how == "commit":
                self.oracle.commit(actor)
            else:
                del self.oracle.open[actor]

    @contextmanager
    def as_actor(self, actor: int, certain: bool, possible: bool) -> Iterator[Connection[Any]]:
        """Run statements that certainly, or possibly, wait for a lock of another transaction."""
        self.actor = actor
        connection = self.connections[actor]
        if certain or possible:
            connection.execute("set lock_timeout = '40ms'")
        try:
            yield connection
        except psycopg.errors.LockNotAvailable:
            assert certain or possible, "it waited for a lock, and no other transaction holds one"
            if actor in self.oracle.open:
                connection.execute("rollback")
                del self.oracle.open[actor]
        else:
            assert not certain, "it did not wait for the transaction that has locked the row"
        connection.execute("reset lock_timeout")

    # Enqueueing

    @rule(
        actor=actor,
        job_type=st.sampled_from(TYPES),
        priority=st.sampled_from([30, 100]),
        key=st.sampled_from([None, None, "k", "l"]),
        unique=st.sampled_from([None, None, None, "u"]),
        later=st.sampled_from([False, False, False, True]),
        max_attempts=st.sampled_from([1, 2, 3]),
    )
    def enqueue(
        self,
        actor: int,
        job_type: str,
        priority: int,
        key: str | None,
        unique: str | None,
        later: bool,
        max_attempts: int,
    ) -> None:
        view = self.oracle.view(actor)
        alike = [
            job_id
            for job_id, job in view.items()
            if (job.job_type, job.unique) == (job_type, unique) and job.unfinished
        ]
        found = alike if unique else []
        doubtful = self.oracle.unique_key_is_undecided(actor, job_type, unique)
        with self.as_actor(actor, False, doubtful) as connection:
            job_id = JobQueue(connection).enqueue(
                job_type,
                {},
                priority=priority,
                key=key,
                unique=Once(key=unique) if unique else None,
                delay="1h" if later else 0,
                retry=Retries(max_attempts - 1),
            )
            if found:
                assert job_id in found, "a job was added beside one with the same unique key"
                return
            self.oracle.turns += 1
            turn = self.oracle.turns
            job = Job(turn, job_type, priority, max_attempts, key, unique, later, enqueued_at_turn=turn)
            self.oracle.write(actor, job_id, job)
            self.known.append(job_id)

    # Working

    @rule(actor=actor, worker=st.sampled_from(WORKERS), types=st.sets(st.sampled_from(TYPES), min_size=1), limit=which)
    def claim(self, actor: int, worker: str, types: set[str], limit: int) -> None:
        limit = limit % 4 + 1
        # Workers tick as well; a tick finds jobs that were committed late.
        self.observer.execute("select tick('0')")
        self.actor = actor
        rows = JobQueue(self.connections[actor], worker).claim(sorted(types), limit)
        self.oracle.check_claim(actor, worker, types, limit, [row.id for row in rows])
        self.claims += rows
        for row in rows:
            assert row.lease == self.oracle.view(actor)[row.id].lease

    @rule(
        actor=actor,
        nth=which,
        how=st.sampled_from(
            ["complete", "fail", "fail later", "final", "release", "snooze", "start", "start", "progress", "cancel"]
        ),
        fenced=st.sampled_from([True, True, True, False]),
        late=st.booleans(),
    )
    def finish(self, actor: int, nth: int, how: str, fenced: bool, late: bool) -> None:
        if row := self._claim(actor, nth, late):
            self._finish(actor, row, how, fenced or how in ("release", "snooze", "start", "progress"))

    @rule(
        actor=actor,
        nth=which,
        how=st.sampled_from(["fail", "release"]),
        then=st.sampled_from(LATE_REPORTS),
        many=st.booleans(),
    )
    def report_late(self, actor: int, nth: int, how: str, then: str, many: bool) -> None:
        """A worker that lost a job and claimed it again reports an outcome with the old claim."""
        if row := self._claim(actor, nth, late=False):
            self._finish(actor, row, how, fenced=True)
            self.claim(actor, str(row.worker_id), set(TYPES), nth)
            if many:
                self.finish_many(actor, [(nth, True), (nth, False)], then)
            elif stale := self._claim(actor, nth, late=True):
                self._finish(actor, stale, then, fenced=True)

    @rule(actor=actor, limit=which, lost=st.booleans())
    def crash_again_and_again(self, actor: int, limit: int, lost: bool) -> None:
        """The processes of the jobs die, or their worker is lost as a whole."""
        claims = [(nth, False) for nth in range(limit % 4 + 1)]
        for _ in range(CRASH_LIMIT):
            self.claim(actor, "leased", set(TYPES), limit)
            self.finish_many(actor, claims, "start" if lost else "crash")
            if lost:
                self._recover_lost(silent=True)

    @rule(actor=actor, key=st.sampled_from(["k", "l"]), how=st.sampled_from(["complete", "final", "cancel"]))
    def finish_while_the_next_is_uncommitted(self, actor: int, key: str, how: str) -> None:
        """The head of a key finishes and cannot see the next job, which is not yet committed."""
        other = (actor + 1) % 3
        if actor not in self.oracle.open:
            self.begin_or_end(actor, "commit")
        self.enqueue(actor, TYPES[0], 100, key, None, later=False, max_attempts=1)
        self.claim(other, WORKERS[0], set(TYPES), 3)
        view = self.oracle.view(other)
        for row in [
            row for row in self.claims if row.key == key and row.id in view and view[row.id].lease == row.lease
        ]:
            self._finish(other, row, how, fenced=True)
        for each in (actor, other):
            if each in self.oracle.open:
                self.begin_or_end(each, "commit")

    def _finish(self, actor: int, row: JobRow, how: str, fenced: bool) -> None:
        job = self.oracle.view(actor).get(row.id)
        after = None
        if job:
            after = self.oracle.apply_outcome(
                job, how, row.worker_id if fenced else None, row.lease if fenced else None
            )
        certain = after is not None and row.id in self.oracle.locked(actor)
        with self.as_actor(actor, certain, job is not None and self.oracle.may_have_to_wait(actor, job)) as connection:
            try:
                self._report(JobQueue(connection), row if fenced else row.id, how)
            except (LeaseLost, WrongStatus, JobNotFound):
                assert after is None, f"refused although the worker has the job: {job}"
            else:
                assert after is not None, f"accepted although the worker has lost the job: {job}"
                self.oracle.write(actor, row.id, after, job)

    def _claim(self, actor: int, nth: int, late: bool) -> JobRow | None:
        """A current claim or, with `late`, one whose job was claimed again since; any claim if there is none."""
        view = self.oracle.view(actor)
        claimed = [row for row in self.claims if row.id in view and view[row.id].claimed]
        candidates = [row for row in claimed if (view[row.id].lease != row.lease) == late] or self.claims
        return candidates[-1 - nth % len(candidates)] if candidates else None

    def _report(self, queue: JobQueue, job: JobRow | UUID, how: str) -> None:
        reports: dict[str, Callable[[], None]] = {
            "fail": lambda: queue.fail(job, "no", delay=0),
            "fail later": lambda: queue.fail(job, "no", delay="1h"),
            "final": lambda: queue.fail(job, "no", final=True),
            "snooze": lambda: queue.snooze(job, "1h"),
            "progress": lambda: queue.progress(job, 50),
        }
        plain: Callable[[Any], None] = getattr(queue, how, queue.complete)
        reports.get(how, lambda: plain(job))()

    @rule(
        actor=actor,
        chosen=st.lists(st.tuples(which, st.booleans()), min_size=1, max_size=4),
        how=st.sampled_from(["complete", "complete", "start", *OUTCOMES]),
    )
    def finish_many(self, actor: int, chosen: list[tuple[int, bool]], how: str) -> None:
        """Report the same outcome of several jobs in one call, as a worker does."""
        found = [row for nth, late in chosen if (row := self._claim(actor, nth, late))]
        rows = list({row.id: row for row in found}.values())
        view, locked = self.oracle.view(actor), self.oracle.locked(actor)
        done = {}
        for row in rows:
            job, worker = view.get(row.id), (row if how == "complete" else rows[0]).worker_id
            if job and (after := self.oracle.apply_outcome(job, how, worker, row.lease)):
                done[row.id] = job, after
        certain = any(job_id in locked for job_id in done)
        if certain and how == "start":
            return  # report_jobs sets its own lock time-out of a second
        doubtful = any(self.oracle.may_have_to_wait(actor, job) for job, _ in done.values())
        with self.as_actor(actor, certain, doubtful) as connection:
            assert self._accepted(connection, rows, how) == done.keys()
            for job_id, (job, after) in done.items():
                self.oracle.write(actor, job_id, after, job)

    def _accepted(self, connection: Connection[Any], rows: list[JobRow], how: str) -> set[UUID]:
        if not rows or how == "complete":
            return {row.id for row in rows} - {row.id for row in JobQueue(connection).complete_many(rows)}
        query = "select * from report_jobs(%s, %s, %s, array_fill(0.1::float, array[%s]))"
        reply: list[Any] = [rows[0].worker_id, [row.id for row in rows], [row.lease for row in rows], len(rows)]
        if how != "start":
            query = """
                select id from settle_jobs(%s, %s, %s, array_fill(%s::varchar, array[%s]),
                    p_delays => array_fill(%s::float, array[%s]), p_crash_limit => %s)"""
            reply[3:] = [OUTCOMES[how], len(rows), 0 if how == "fail" else None, len(rows), CRASH_LIMIT]
        return {job_id for (job_id,) in connection.execute(query.encode(), reply).fetchall()}

    # Operating

    @rule(actor=actor, nth=which, action=st.sampled_from(["retry", "cancel", "delete", "run_now", "priority"]))
    def operate(self, actor: int, nth: int, action: str) -> None:
        if not self.known:
            return
        job_id = self.known[-1 - nth % len(self.known)]
        view, locked = self.oracle.view(actor), self.oracle.locked(actor)
        job = view.get(job_id)
        if job and action == "retry" and self.oracle.unique_key_is_undecided(actor, job.job_type, job.unique):
            return  # it would wait for the other transaction
        doubtful = job is not None and self.oracle.may_have_to_wait(actor, job)
        with self.as_actor(actor, False, doubtful) as connection:
            # With more than one id, locked rows are reported as busy instead of waited for.
            reply = connection.execute(
                "select id, outcome from operate(%s, %s, p_priority => 100)", [action, [job_id, uuid4()]]
            )
            outcome: str = dict(reply.fetchall())[job_id]
            if job is None:
                assert outcome == "missing"
            elif job_id in locked or (doubtful and outcome == "busy"):
                assert outcome == "busy"
            else:
                fits, after = self.oracle.apply_operation(view, job, action, 100)
                assert outcome == ("done" if fits else "unfit"), f"{action} of {job}: {outcome}"
                if actor in self.oracle.open:
                    self.oracle.open[actor].locks.add(job_id)
                if fits:
                    self.oracle.write(actor, job_id, after, job)

    def _pause(self, job_type: str, pause: bool) -> None:
        query = "select pause(%s)" if pause else "select resume(%s)"
        (changed,) = self.observer.execute(query.encode(), [job_type]).fetchone() or (None,)
        assert changed == ((job_type in self.oracle.pauses) != pause)
        (self.oracle.pauses.add if pause else self.oracle.pauses.discard)(job_type)

    def _set_limit(self, amount: int) -> None:
        self.observer.execute("select set_limit('limit', %s, p_job_type => %s)", [amount, LIMITED])
        self.oracle.amount = amount

    # Maintenance

    @rule(what=st.sampled_from(["pause", "resume", "limit", "stale", "lost", "prune"]), nth=which)
    def maintain(self, what: str, nth: int) -> None:
        if what in ("pause", "resume"):
            self._pause(TYPES[nth % len(TYPES)], what == "pause" and nth % 3 == 0)
        elif what == "limit":
            self._set_limit(nth % 4)
        elif what == "prune":
            self._prune(["completed", "failed", "cancelled"][nth % 3])
        elif what == "stale":
            self._recover_stale(nth % 3 > 0)
        else:
            self._recover_lost(nth % 3 > 0)

    def _recover_stale(self, silent: bool) -> None:
        if silent and any(self.oracle.may_have_to_wait(-1, job) for job in self.oracle.committed.values()):
            return  # it would wait for a lock
        query = "select recover_stale_jobs('1 hour', clock_timestamp() + %s::interval)"
        (count,) = self.observer.execute(query, ["2 hours" if silent else "0"]).fetchone() or (None,)
        stale = self._not_locked(lambda job: silent and job.claimed)
        assert count == len(stale)
        for job_id, job in stale.items():
            self.oracle.write(-1, job_id, self.oracle.recover_stale(job), job)

    def _recover_lost(self, silent: bool) -> None:
        if silent and any(self.oracle.may_have_to_wait(-1, job) for job in self.oracle.committed.values()):
            return
        query = "select id, status from recover_lost_workers(%s, clock_timestamp() + %s::interval)"
        found = dict(self.observer.execute(query, [CRASH_LIMIT, "1 hour" if silent else "0"]).fetchall())
        if silent:
            self.observer.execute("select register_worker('leased', '10 seconds', %s)", [TYPES])
        lost = self._not_locked(lambda job: silent and job.claimed and job.worker == "leased")
        after = {job_id: self.oracle.recover_lost(job) for job_id, job in lost.items()}
        assert found == {job_id: job.status for job_id, job in after.items()}
        for job_id, job in lost.items():
            self.oracle.write(-1, job_id, after[job_id], job)

    def _prune(self, status: str) -> None:
        (count,) = self.observer.execute("select pruned from prune_jobs(%s, '0')", [status]).fetchone() or (None,)
        old = self._not_locked(lambda job: job.status == status)
        assert count == len(old)
        for job_id, job in old.items():
            self.oracle.write(-1, job_id, None, job)

    def _not_locked(self, candidates: Callable[[Job], bool]) -> dict[UUID, Job]:
        """The committed jobs that match and that no transaction has locked."""
        locked = self.oracle.locked(-1)
        return {
            job_id: job for job_id, job in self.oracle.committed.items() if candidates(job) and job_id not in locked
        }

    # Invariants

    @invariant()
    def the_table_matches_the_oracle(self) -> None:
        for connection, seen in ((self.observer, -1), (self.connections[self.actor], self.actor)):
            if connection is self.observer or seen in self.oracle.open:
                found = {row[0]: tuple(row[1:]) for row in connection.execute(FACTS).fetchall()}
                expected = {job_id: job.facts() for job_id, job in self.oracle.view(seen).items()}
                assert found == expected, difference(found, expected)
        # An invariant can only be broken by a commit.
        if self.actor not in self.oracle.open:
            for what, query in BROKEN.items():
                assert not self.observer.execute(query.encode()).fetchall(), what

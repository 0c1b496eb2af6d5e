"""What three connections do in turn, with transactions that stay open, each step as the oracle (model.py) says."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar
from uuid import UUID, uuid4

import psycopg
from chaos.invariants import BROKEN
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from psycopg import Connection

from tests.support.model import CRASH_LIMIT, Job, Oracle, Transaction
from treadle import JobNotFound, JobQueue, JobRow, LeaseLost, WrongStatus

TYPES, WORKERS = ["a", "b"], ["by hand", "leased"]
FACTS = """
    select id, status, job_type, priority, key, unique_key, worker_id,
        run_at > clock_timestamp() + interval '30 minutes', attempts, max_attempts, lease, crashes
    from jobs"""
# Who waits for a row of another's open transaction would wait for ever here: both are this one thread. Where nobody can
# be in the way, a loaded machine gets its time: autovacuum may hold a table for a moment.
OPTIONS = "-c search_path=treadle,public -c lock_timeout=10s"

SOME = [(None, None), (None, None), ("k", None), ("k", None), ("l", "u"), (None, "u")]
ENDS = ["complete", "fail", "release", "start", "cancel"]
# As settle_jobs calls them, for many jobs of one worker.
OUTCOMES = {"fail": "retry", "final": "failed", "cancel": "cancelled", "release": "released", "crash": "crashed"}

who = st.integers(0, 2)
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
    def begin_with_some(self, worker: str, limit: int) -> None:
        self.observer.execute("truncate jobs, errors, lanes, workers, pauses, audit, events, logs, steps")
        self.observer.execute("select register_worker('leased', '10 seconds', %s)", [TYPES])
        for n, (key, unique) in enumerate(SOME):
            self.enqueue(0, TYPES[n % 2], 100, key, unique, later=False, max_attempts=1 + n % 2)
        self.claim(0, worker, set(TYPES), limit)

    def teardown(self) -> None:
        for each in (*self.connections, self.observer):
            each.close()

    # Transactions

    @rule(who=who, how=st.sampled_from(["commit", "commit", "rollback"]))
    def begin_or_end(self, who: int, how: str) -> None:
        self.actor = who
        if who not in self.oracle.open:
            self.connections[who].execute("begin")
            self.oracle.open[who] = Transaction()
        else:
            self.connections[who].execute(how.encode())
            if how == "commit":
                self.oracle.commit(who)
            else:
                del self.oracle.open[who]

    @contextmanager
    def acting(self, who: int, certain: bool, possible: bool) -> Iterator[Connection[Any]]:
        """Whether it is certain, or possible, that a lock of another transaction is in the way."""
        self.actor = who
        connection = self.connections[who]
        if certain or possible:
            connection.execute("set lock_timeout = '40ms'")
        try:
            yield connection
        except psycopg.errors.LockNotAvailable:
            assert certain or possible, "it had to wait for somebody, and there is nobody"
            if who in self.oracle.open:
                connection.execute("rollback")
                del self.oracle.open[who]
        else:
            assert not certain, "it did not wait for the transaction that holds the row"
        connection.execute("reset lock_timeout")

    # Enqueueing

    @rule(
        who=who,
        job_type=st.sampled_from(TYPES),
        priority=st.sampled_from([30, 100]),
        key=st.sampled_from([None, None, "k", "l"]),
        unique=st.sampled_from([None, None, None, "u"]),
        later=st.sampled_from([False, False, False, True]),
        max_attempts=st.sampled_from([1, 2, 3]),
    )
    def enqueue(
        self,
        who: int,
        job_type: str,
        priority: int,
        key: str | None,
        unique: str | None,
        later: bool,
        max_attempts: int,
    ) -> None:
        view = self.oracle.view(who)
        alike = [
            job_id for job_id, job in view.items() if (job.job_type, job.unique) == (job_type, unique) and job.live
        ]
        found = alike if unique else []
        doubtful = self.oracle.in_doubt(who, job_type, unique)
        with self.acting(who, False, doubtful) as connection:
            job_id = JobQueue(connection).enqueue(
                job_type,
                {},
                priority=priority,
                key=key,
                unique=unique,
                delay="1h" if later else 0,
                max_attempts=max_attempts,
            )
            if found:
                assert job_id in found, "a job was added beside one with the same unique key"
                return
            self.oracle.turns += 1
            turn = self.oracle.turns
            job = Job(turn, job_type, priority, max_attempts, key, unique, later, born=turn)
            self.oracle.write(who, job_id, job)
            self.known.append(job_id)

    # Working

    @rule(who=who, worker=st.sampled_from(WORKERS), types=st.sets(st.sampled_from(TYPES), min_size=1), limit=which)
    def claim(self, who: int, worker: str, types: set[str], limit: int) -> None:
        limit = limit % 4 + 1
        # As whoever claims does; it finds what was committed late.
        self.observer.execute("select tick('0')")
        self.actor = who
        rows = JobQueue(self.connections[who], worker).claim(sorted(types), limit)
        self.oracle.judge_claim(who, worker, types, limit, [row.id for row in rows])
        self.claims += rows
        for row in rows:
            assert row.lease == self.oracle.view(who)[row.id].lease

    @rule(
        who=who,
        nth=which,
        how=st.sampled_from(
            ["complete", "fail", "fail later", "final", "release", "snooze", "start", "start", "progress", "cancel"]
        ),
        fenced=st.sampled_from([True, True, True, False]),
        late=st.booleans(),
    )
    def finish(self, who: int, nth: int, how: str, fenced: bool, late: bool) -> None:
        if row := self._claim(who, nth, late):
            self._finish(who, row, how, fenced or how in ("release", "snooze", "start", "progress"))

    @rule(who=who, nth=which, how=st.sampled_from(["fail", "release"]), then=st.sampled_from(ENDS), many=st.booleans())
    def come_late(self, who: int, nth: int, how: str, then: str, many: bool) -> None:
        """A holder that lost its job, and has it again, still has the old claim in its hands."""
        if row := self._claim(who, nth, late=False):
            self._finish(who, row, how, fenced=True)
            self.claim(who, str(row.worker_id), set(TYPES), nth)
            if many:
                self.end_many(who, [(nth, True), (nth, False)], then)
            elif stale := self._claim(who, nth, late=True):
                self._finish(who, stale, then, fenced=True)

    @rule(who=who, limit=which)
    def crash_again_and_again(self, who: int, limit: int) -> None:
        for _ in range(CRASH_LIMIT):
            self.claim(who, "leased", set(TYPES), limit)
            self.end_many(who, [(nth, False) for nth in range(limit % 4 + 1)], "start")
            self._recover_lost(silent=True)

    @rule(who=who, key=st.sampled_from(["k", "l"]), how=st.sampled_from(["complete", "final", "cancel"]))
    def end_meanwhile(self, who: int, key: str, how: str) -> None:
        """The head of a key ends, and cannot see the next, which is not yet committed."""
        other = (who + 1) % 3
        if who not in self.oracle.open:
            self.begin_or_end(who, "commit")
        self.enqueue(who, TYPES[0], 100, key, None, later=False, max_attempts=1)
        self.claim(other, WORKERS[0], set(TYPES), 3)
        view = self.oracle.view(other)
        for row in [
            row for row in self.claims if row.key == key and row.id in view and view[row.id].lease == row.lease
        ]:
            self._finish(other, row, how, fenced=True)
        for each in (who, other):
            if each in self.oracle.open:
                self.begin_or_end(each, "commit")

    def _finish(self, who: int, row: JobRow, how: str, fenced: bool) -> None:
        job = self.oracle.view(who).get(row.id)
        after = None
        if job:
            after = self.oracle.ended(job, how, row.worker_id if fenced else None, row.lease if fenced else None)
        certain = after is not None and row.id in self.oracle.locked(who)
        with self.acting(who, certain, job is not None and self.oracle.hindered(who, job)) as connection:
            try:
                self._says(JobQueue(connection), row if fenced else row.id, how)
            except (LeaseLost, WrongStatus, JobNotFound):
                assert after is None, f"refused, and it is his: {job}"
            else:
                assert after is not None, f"accepted, and it is not his any more: {job}"
                self.oracle.write(who, row.id, after, job)

    def _claim(self, who: int, nth: int, late: bool) -> JobRow | None:
        """One that is still held; late: one whose job is held again, under another lease; if none is, whichever."""
        view = self.oracle.view(who)
        held = [row for row in self.claims if row.id in view and view[row.id].held]
        meant = [row for row in held if (view[row.id].lease != row.lease) == late] or self.claims
        return meant[-1 - nth % len(meant)] if meant else None

    def _says(self, queue: JobQueue, job: JobRow | UUID, how: str) -> None:
        says: dict[str, Callable[[], None]] = {
            "fail": lambda: queue.fail(job, "no", delay=0),
            "fail later": lambda: queue.fail(job, "no", delay="1h"),
            "final": lambda: queue.fail(job, "no", final=True),
            "snooze": lambda: queue.snooze(job, "1h"),
            "progress": lambda: queue.progress(job, 50),
        }
        plain: Callable[[Any], None] = getattr(queue, how, queue.complete)
        says.get(how, lambda: plain(job))()

    @rule(
        who=who,
        chosen=st.lists(st.tuples(which, st.booleans()), min_size=1, max_size=4),
        how=st.sampled_from(["complete", "complete", "start", *OUTCOMES]),
    )
    def end_many(self, who: int, chosen: list[tuple[int, bool]], how: str) -> None:
        """As a worker says it, of several at once."""
        found = [row for nth, late in chosen if (row := self._claim(who, nth, late))]
        rows = list({row.id: row for row in found}.values())
        view, locked = self.oracle.view(who), self.oracle.locked(who)
        done = {}
        for row in rows:
            job, worker = view.get(row.id), (row if how == "complete" else rows[0]).worker_id
            if job and (after := self.oracle.ended(job, how, worker, row.lease)):
                done[row.id] = job, after
        certain = any(job_id in locked for job_id in done)
        if certain and how == "start":
            return  # it waits for a second, by its own setting
        doubtful = any(self.oracle.hindered(who, job) for job, _ in done.values())
        with self.acting(who, certain, doubtful) as connection:
            assert self._accepted(connection, rows, how) == done.keys()
            for job_id, (job, after) in done.items():
                self.oracle.write(who, job_id, after, job)

    def _accepted(self, connection: Connection[Any], rows: list[JobRow], how: str) -> set[UUID]:
        if not rows or how == "complete":
            return {row.id for row in rows} - {row.id for row in JobQueue(connection).complete_many(rows)}
        query = "select * from start_jobs(%s, %s, %s, array_fill(0.1::float, array[%s]))"
        told: list[Any] = [rows[0].worker_id, [row.id for row in rows], [row.lease for row in rows], len(rows)]
        if how != "start":
            query = """
                select id from settle_jobs(%s, %s, %s, array_fill(%s::varchar, array[%s]),
                    p_delays => array_fill(%s::float, array[%s]), p_crash_limit => %s)"""
            told[3:] = [OUTCOMES[how], len(rows), 0 if how == "fail" else None, len(rows), CRASH_LIMIT]
        return {job_id for (job_id,) in connection.execute(query.encode(), told).fetchall()}

    # Operating

    @rule(who=who, nth=which, action=st.sampled_from(["retry", "cancel", "delete", "run_now", "priority"]))
    def operate(self, who: int, nth: int, action: str) -> None:
        if not self.known:
            return
        job_id = self.known[-1 - nth % len(self.known)]
        view, locked = self.oracle.view(who), self.oracle.locked(who)
        job = view.get(job_id)
        if job and action == "retry" and self.oracle.in_doubt(who, job.job_type, job.unique):
            return  # it would have to wait for the other transaction
        doubtful = job is not None and self.oracle.hindered(who, job)
        with self.acting(who, False, doubtful) as connection:
            # Two at once are not waited for.
            told = connection.execute(
                "select id, outcome from operate(%s, %s, p_priority => 100)", [action, [job_id, uuid4()]]
            )
            outcome: str = dict(told.fetchall())[job_id]
            if job is None:
                assert outcome == "missing"
            elif job_id in locked or (doubtful and outcome == "busy"):
                assert outcome == "busy"
            else:
                fits, after = self.oracle.operated(view, job, action, 100)
                assert outcome == ("done" if fits else "unfit"), f"{action} of {job}: {outcome}"
                if who in self.oracle.open:
                    self.oracle.open[who].locks.add(job_id)
                if fits:
                    self.oracle.write(who, job_id, after, job)

    def _pause(self, job_type: str, pause: bool) -> None:
        query = "select pause(%s)" if pause else "select resume(%s)"
        (changed,) = self.observer.execute(query.encode(), [job_type]).fetchone() or (None,)
        assert changed == ((job_type in self.oracle.pauses) != pause)
        (self.oracle.pauses.add if pause else self.oracle.pauses.discard)(job_type)

    # Looking after

    @rule(what=st.sampled_from(["pause", "resume", "stale", "lost", "prune"]), nth=which)
    def look_after(self, what: str, nth: int) -> None:
        if what in ("pause", "resume"):
            self._pause(TYPES[nth % len(TYPES)], what == "pause" and nth % 3 == 0)
        elif what == "prune":
            self._prune(["completed", "failed", "cancelled"][nth % 3])
        elif what == "stale":
            self._recover_stale(nth % 3 > 0)
        else:
            self._recover_lost(nth % 3 > 0)

    def _recover_stale(self, silent: bool) -> None:
        if silent and any(self.oracle.hindered(-1, job) for job in self.oracle.committed.values()):
            return  # it would have to wait
        query = "select recover_stale_jobs('1 hour', clock_timestamp() + %s::interval)"
        (count,) = self.observer.execute(query, ["2 hours" if silent else "0"]).fetchone() or (None,)
        stale = self._free(lambda job: silent and job.held)
        assert count == len(stale)
        for job_id, job in stale.items():
            self.oracle.write(-1, job_id, self.oracle.stale(job), job)

    def _recover_lost(self, silent: bool) -> None:
        if silent and any(self.oracle.hindered(-1, job) for job in self.oracle.committed.values()):
            return
        query = "select id, status from recover_lost_workers(%s, clock_timestamp() + %s::interval)"
        found = dict(self.observer.execute(query, [CRASH_LIMIT, "1 hour" if silent else "0"]).fetchall())
        self.observer.execute("select register_worker('leased', '10 seconds', %s)", [TYPES])
        lost = self._free(lambda job: silent and job.held and job.worker == "leased")
        after = {job_id: self.oracle.lost(job) for job_id, job in lost.items()}
        assert found == {job_id: job.status for job_id, job in after.items()}
        for job_id, job in lost.items():
            self.oracle.write(-1, job_id, after[job_id], job)

    def _prune(self, status: str) -> None:
        (count,) = self.observer.execute("select pruned from prune_jobs(%s, '0')", [status]).fetchone() or (None,)
        old = self._free(lambda job: job.status == status)
        assert count == len(old)
        for job_id, job in old.items():
            self.oracle.write(-1, job_id, None, job)

    def _free(self, meant: Callable[[Job], bool]) -> dict[UUID, Job]:
        """Those that are meant, as committed, and that nobody holds locked."""
        locked = self.oracle.locked(-1)
        return {job_id: job for job_id, job in self.oracle.committed.items() if meant(job) and job_id not in locked}

    # What must hold

    @invariant()
    def the_table_is_as_the_oracle_says(self) -> None:
        for connection, seen in ((self.observer, -1), (self.connections[self.actor], self.actor)):
            if connection is self.observer or seen in self.oracle.open:
                found = {row[0]: tuple(row[1:]) for row in connection.execute(FACTS).fetchall()}
                expected = {job_id: job.facts() for job_id, job in self.oracle.view(seen).items()}
                assert found == expected, _difference(found, expected)
        # Only where something was committed can a promise have been broken.
        if self.actor not in self.oracle.open:
            for what, query in BROKEN.items():
                assert not self.observer.execute(query.encode()).fetchall(), what


def _difference(found: dict[UUID, Any], expected: dict[UUID, Any]) -> str:
    both = found.keys() | expected.keys()
    return "\n".join(
        f"{each}: {found.get(each)} instead of {expected.get(each)}"
        for each in both
        if found.get(each) != expected.get(each)
    )

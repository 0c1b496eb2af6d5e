"""Statements that somebody types, at random, against jobs that wait for others and are parts of workflows."""

import json
import random
from contextlib import suppress
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg import Connection

from tests.conftest import Connect

Rows = Connection[Any]

STATUSES = ("pending", "claimed", "running", "completed", "failed", "cancelled")
ATTEMPTS = 1000  # nobody runs out of them


def block(**values: Any) -> dict[str, Any]:
    return {"job_type": "a", "data": ["{}"], "max_attempts": ATTEMPTS, **values}


class Trial:
    def __init__(self, connect: Connect, seed: int) -> None:
        self.rng = random.Random(seed)
        self.connections = [connect(), connect()]
        self.history: list[Any] = []
        self.jobs = self.enqueue()

    def enqueue(self) -> list[UUID]:
        """Two workflows, one in the other, with a signal; and jobs before and after them."""
        rng = self.rng

        def after(count: int) -> list[dict[str, Any]]:
            chosen = rng.sample(range(count), min(count, rng.choice([0, 1, 1, 2])))
            return [{"nth": nth, **rng.choice([{}, {}, {"ok_to_fail": True}, {"if_failed": True}])} for nth in chosen]

        blocks = [block(part=rng.choice([0, 0, 0, None]), after=after(nth)) for nth in range(4)]
        inner = {"workflow": 1, "part": 0, "job_type": "treadle", "data": ['{"name": "inner"}'], "after": after(4)}
        blocks.append(inner)
        blocks += [block(part=1, after=after(4)), block(part=1)]
        blocks.append(block(signal=True, part=0, data=['{"signal": "go", "timeout": 3600}'], after=after(3)))
        blocks.append(block(after=[{"nth": -1, **rng.choice([{}, {"ok_to_fail": True}])}]))
        enqueue = "select id from enqueue_workflow('outer', %s) order by nth"
        rows = self.connections[0].execute(enqueue, [json.dumps(blocks)])
        return [row[0] for row in rows]

    def run(self, statement: str, params: list[Any] | None = None) -> None:
        self.history.append((statement, params))
        with suppress(psycopg.errors.CheckViolation):
            self.rng.choice(self.connections).execute(statement.encode(), params)

    def step(self) -> None:
        rng = self.rng
        job_id = rng.choice(self.jobs)
        match rng.randrange(16):
            case 0 | 1 | 2 | 3 | 4:
                self.run(f"update jobs set status = '{rng.choice(STATUSES)}' where id = %s", [job_id])
            case 5:
                self.run(f"update jobs set status = '{rng.choice(STATUSES)}' where status = '{rng.choice(STATUSES)}'")
            case 6:
                self.run("select retry_job(%s)", [job_id])
            case 7:
                self.run("select cancel_job(%s)", [job_id])
            case 8:
                self.run(f"select fail_job(%s, 'no', p_delay => '0', p_final => {rng.random() < 0.5})", [job_id])
            case 9:
                self.run("select complete_job(%s)", [job_id])
            case 10:
                self.run("select release_job(%s)", [job_id])
            case 11:
                self.run("select retry_workflow(%s)", [self.jobs[-1]])
            case 12:
                if rng.random() < 0.3:
                    self.run("delete from jobs where id = %s", [job_id])
            case 13:
                self.run("select id from claim_work('w', '{a}', %s, null)", [rng.randrange(1, 4)])
            case 14:
                self.run("select tick('0')")
            case 15:
                self.run("select send_signal(%s, 'go', '1')", [self.jobs[-1]])

    def counts(self) -> None:
        """The counts of each workflow are those of its jobs."""
        connection = self.connections[0]
        for _ in range(10):  # what is left of a workflow that was cancelled is cancelled then
            if connection.execute("select exists (select from member_changes)").fetchone() == (True,):
                connection.execute("select roll_up_workflows('-infinity')")
        columns = "jobs, completed, failed, cancelled, work, done"
        for row in connection.execute(f"select id, {columns} from workflows").fetchall():
            found = connection.execute(f"select deleted, {columns} from count_outcomes(%s, null)", [row[0]]).fetchone()
            assert found is not None
            jobs, *ended, work, done = (counted - true for counted, true in zip(row[1:], found[1:], strict=True))
            assert (jobs, work, done) == (0, 0, 0), (row, found)
            assert min(ended) >= 0, "a job that was deleted counts as it had ended"
            assert sum(ended) == found[0], (row, found)

    def finish(self) -> None:
        """Give back what runs, and run all: then nothing waits."""
        connection = self.connections[0]
        connection.execute("update jobs set status = 'pending' where status in ('claimed', 'running')")
        left = "select id, status, holds, flags from jobs where finished_at is null"
        signals = "select send_signal(id, 'go', '1') from jobs where flags & flag_signal() <> 0 and status = 'pending'"
        for _ in range(60):
            connection.execute("select tick('0')")
            connection.execute(signals)
            for (job_id,) in connection.execute("select id from claim_work('w', '{a}', 100, null)").fetchall():
                connection.execute("select complete_job(%s)", [job_id])
            if not connection.execute(left).fetchall():
                break
        assert connection.execute(left).fetchall() == []


@pytest.mark.parametrize("seed", range(4))
def test_random_statements_leave_no_job_behind_and_no_count_wrong(connect: Connect, seed: int) -> None:
    trial = Trial(connect, seed)
    try:
        for nth in range(60):
            trial.step()
            if nth % 5 == 0:
                trial.counts()
        trial.finish()
        trial.counts()
    except BaseException:
        print(seed, *trial.jobs, *trial.history, sep="\n")
        raise

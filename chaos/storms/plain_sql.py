"""A client in plain SQL beside the workers: it knows the table `jobs` and claim_job_batch(), and nothing of leases,
dependencies, keys, limits or workflows."""

import json
import time
from contextlib import suppress
from random import Random
from typing import Any
from uuid import uuid4

import psycopg
from psycopg.rows import dict_row

from chaos.ledger import RunLocks
from chaos.scene import PLAIN, Scene
from chaos.storms.storm import Storm

TYPES = ["other_0", "other_1", "on_event_loop", "on_thread", "limited", "deployed"]
CLAIM = "select * from claim_job_batch(%s, %s, %s)"
START = "update jobs set status = 'running', started_at = now() where id = %s"
PROGRESS = "update jobs set progress = 50, current_stage = 'half' where id = %s"
COMPLETE = "update jobs set status = 'completed', progress = 100, completed_at = now() where id = %s"
FAIL = """
    update jobs set
        status = case when attempts >= max_attempts then 'failed' else 'pending' end,
        last_error = 'plain', worker_id = null, claimed_at = null
    where id = %s"""
# Also jobs that wait for others, for their key or for a limit: the first of these more often.
CLAIM_BY_HAND = """
    update jobs set status = 'claimed', worker_id = %s, claimed_at = now(), attempts = attempts + 1
    where id = (
        select id from jobs where status = 'pending' and attempts < max_attempts and data ? 'token'
        order by holds & blocked_by_jobs() = 0 and random() < 0.8, random() limit 1 for update skip locked
    )
    returning id, lease"""
OPEN = """
    select from dependencies as edge
    join jobs as other on other.id = edge.after_id
    where edge.job_id = %s and other.finished_at is null
    limit 1"""
RELEASE = "select release_job(id) from jobs where worker_id = %s and status in ('claimed', 'running')"
INSERT = "insert into jobs (job_type, priority, data) values (%s, %s, %s) returning id"


class PlainSql(Storm):
    name = "plain-sql"
    about = "a client that knows only the table jobs claims, runs, completes and fails jobs, and adds some"
    every = (0.02, 0.3)

    def before_workers(self, scene: Scene) -> None:
        self._locks = RunLocks(scene.ledger.folder)

    def inject(self, scene: Scene, rng: Random) -> None:
        with suppress(psycopg.Error), scene.server.connect() as connection:
            connection.row_factory = dict_row
            for act in rng.choices([self._work, self._refuse, self._add], [5, 3, 2], k=10):
                act(scene, rng, connection)

    def end(self, scene: Scene) -> None:
        """Whatever was lost with a connection."""
        with scene.server.connect() as connection:
            connection.execute(RELEASE, [PLAIN])

    def _work(self, scene: Scene, rng: Random, connection: psycopg.Connection[Any]) -> None:
        claimed = connection.execute(CLAIM, [PLAIN, rng.sample(TYPES, 3), rng.randint(1, 3)]).fetchall()
        scene.ledger.note("fault", did="claims in plain SQL", number=len(claimed))
        for job in claimed:
            self._run(scene, rng, connection, job)

    def _run(self, scene: Scene, rng: Random, connection: psycopg.Connection[Any], job: dict[str, Any]) -> None:
        run = {"id": str(job["id"]), "lease": job["lease"]}
        exclusive, limits = job["data"]["exclusive"], []
        if job["job_type"] == "limited":
            exclusive = [*exclusive, f"limit {job['data']['tenant']}"]
        if job["job_type"] == "deployed":
            limits = [["deployed", "", 1], ["tenant", job["data"]["tenant"], 1]]
        acquired, others = self._locks.acquire([f"job {job['id']}", *exclusive], run)
        token = job["data"]["token"]
        scene.ledger.note("start", **run, token=token, worker=PLAIN, others=others, limits=limits)
        fails = rng.random() < 0.1
        try:
            connection.execute(START, [job["id"]])
            connection.execute(PROGRESS, [job["id"]])
            time.sleep(rng.choice([0, 0.01, 0.1]))
        finally:
            scene.ledger.note("end", **run, how="raised" if fails else "returned")
            self._locks.release(acquired)
        connection.execute(FAIL if fails else COMPLETE, [job["id"]])

    def _refuse(self, scene: Scene, rng: Random, connection: psycopg.Connection[Any]) -> None:
        """Claim some pending job by an update, and fail it soon."""
        job = connection.execute(CLAIM_BY_HAND, [PLAIN]).fetchone()
        if job is None:
            return
        scene.ledger.note("fault", did="claim by an update")
        scene.ledger.note("moving", id=str(job["id"]))
        scene.ledger.note("end", id=str(job["id"]), lease=job["lease"], how="raised")
        end = time.monotonic() + rng.choice([0, 1.5])
        while time.monotonic() < end and connection.execute(OPEN, [job["id"]]).fetchone() is not None:
            time.sleep(0.02)  # meanwhile, what it waited for may end
        if rng.random() < 0.5:
            connection.execute("select fail_job(%s, 'plain', p_delay => '0')", [job["id"]])
        else:
            connection.execute(FAIL, [job["id"]])

    def _add(self, scene: Scene, rng: Random, connection: psycopg.Connection[Any]) -> None:
        token = uuid4().hex
        payload = {"token": token, "seconds": 0.01, "exclusive": [], "ending": {}}
        scene.ledger.note("invoked", tokens=[token])
        added = connection.execute(INSERT, [rng.choice(TYPES[:4]), rng.choice([30, 100, 150]), json.dumps(payload)])
        scene.ledger.note("returned", tokens=[token], ids=[str(added.fetchone()["id"])])  # type: ignore[index]

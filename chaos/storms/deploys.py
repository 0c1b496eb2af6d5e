"""Limits that are declared, added, renamed and changed while jobs run that nobody has limited before."""

import itertools
import json
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from random import Random
from typing import Any
from uuid import uuid4

import psycopg

from chaos.processes import WorkerProgram
from chaos.scene import Scene
from chaos.storms.storm import Storm
from chaos.waiting import until

JOBS = 40
ENQUEUE = "select enqueue_jobs('deployed', %s, p_max_attempts => 5)"
SET = "select set_limit(%s, %s)"
ADD = "select set_limit(%(name)s, %(amount)s, p_per => nullif(%(per)s, ''), p_job_type => 'deployed')"
DECLARE = """
    select declare_limits(jsonb_build_array(jsonb_build_object(
        'name', %(name)s::text, 'kind', 'concurrency', 'per', %(per)s::text, 'amount', %(amount)s::int,
        'digest', %(name)s::text, 'job_types', array['deployed'], 'queues', array[]::text[]
    )))"""
IS_IN_FORCE = """
    select count(*) > 0 from limits
    where name = %(name)s and coalesce(per, '') = %(per)s and (declared ->> 'amount')::int = %(amount)s"""


class Deploys(Storm):
    """There is one limit at a time, of all jobs of the type `deployed` or of each tenant. It is lifted, many jobs
    start, and then there is another one: those that run count."""

    name = "deploys"
    about = "limits are declared by new versions of the code, added, renamed and changed while jobs run"
    every = (0.2, 1.0)

    def before_workers(self, scene: Scene) -> None:
        self._number = 0
        # A deploy takes long.
        self._acts = itertools.cycle([self._add, self._declare, self._change, self._add, self._declare, self._deploy])
        self._file = scene.folder / "limit.json"
        scene.environment["TREADLE_CHAOS_LIMIT"] = str(self._file)
        # From the first job on, some limit counts by tenant: a job that waits for others or for its key when the first
        # such limit is added counts as one without a tenant, for a minute at most.
        self._limit: dict[str, Any] = {"name": "deployed 0", "amount": 5, "per": "tenant"}
        self._file.write_text(json.dumps(self._limit))
        self._note(scene, time.monotonic(), 5)

    def inject(self, scene: Scene, rng: Random) -> None:
        self._set(scene, None)
        self._enqueue(scene, rng)
        time.sleep(rng.uniform(0.1, 0.8))
        next(self._acts)(scene, rng)

    def end(self, scene: Scene) -> None:
        """So that the jobs that are left need not wait for each other."""
        self._set(scene, None)

    def _enqueue(self, scene: Scene, rng: Random) -> None:
        tokens = [uuid4().hex for _ in range(JOBS)]
        common: dict[str, Any] = {"exclusive": [], "ending": {}}
        payloads = [
            json.dumps({"token": each, "tenant": rng.choice("abc"), "seconds": rng.uniform(0, 1.5), **common})
            for each in tokens
        ]
        scene.ledger.note("invoked", tokens=tokens)
        with suppress(psycopg.Error), scene.server.connect() as connection:
            ids = [str(job) for (job,) in connection.execute(ENQUEUE, [payloads])]
            scene.ledger.note("returned", tokens=tokens, ids=ids)

    def _change(self, scene: Scene, rng: Random) -> None:
        scene.ledger.note("fault", did="limit changed")
        self._set(scene, rng.randint(1, 6))

    def _add(self, scene: Scene, rng: Random) -> None:
        """By an operator."""
        invoked = self._new_limit(rng)
        scene.ledger.note("fault", did="limit added")
        self._do(scene, lambda connection: connection.execute(ADD, self._limit))
        self._note(scene, invoked, self._limit["amount"])

    def _declare(self, scene: Scene, rng: Random) -> None:
        """As a worker with another version of the code does when it starts."""
        invoked = self._new_limit(rng)
        scene.ledger.note("fault", did="limit declared")
        self._do(scene, lambda connection: connection.execute(DECLARE, self._limit))
        self._note(scene, invoked, self._limit["amount"])

    def _deploy(self, scene: Scene, rng: Random) -> None:
        """One worker after the other is replaced."""
        invoked = self._new_limit(rng)
        self._file.write_text(json.dumps(self._limit))
        scene.ledger.note("fault", did="deploy of a limit")
        for old in list(filter(None, scene.workers)):  # while the others go on
            old.terminate()
            until(partial(_has_ended, old), lambda: "the worker ends", 90)
            until(partial(self._is_in_force, scene), lambda: f"{self._limit} is in force", 90)
        self._note(scene, invoked, self._limit["amount"])

    def _is_in_force(self, scene: Scene) -> bool:
        done = self._do(scene, lambda connection: connection.execute(IS_IN_FORCE, self._limit).fetchone())
        return bool(done == (True,))

    def _new_limit(self, rng: Random) -> float:
        """The limit before it has been lifted. Under a name that code had before, it would be an earlier version."""
        self._number += 1
        name = f"deployed {self._number}"
        self._limit = {"name": name, "amount": rng.randint(2, 6), "per": rng.choice(["", "tenant"])}
        return time.monotonic()

    def _set(self, scene: Scene, amount: int | None) -> None:
        invoked = time.monotonic()
        self._do(scene, lambda connection: connection.execute(SET, [self._limit["name"], amount]))
        self._note(scene, invoked, amount)

    def _do(self, scene: Scene, what: Callable[[psycopg.Connection[Any]], Any]) -> Any:
        """Until it is done: each of these may be done twice."""
        end = time.monotonic() + 60
        while True:
            try:
                with scene.server.connect() as connection:
                    return what(connection)
            except psycopg.OperationalError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.1)

    def _note(self, scene: Scene, invoked: float, amount: int | None) -> None:
        per_tenant = self._limit["per"] == "tenant"
        for name, value in ("deployed", None if per_tenant else amount), ("tenant", amount if per_tenant else None):
            scene.ledger.note("limit", name=name, amount=value, invoked=invoked)


def _has_ended(worker: WorkerProgram) -> bool:
    return not worker.alive()

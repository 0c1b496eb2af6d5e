"""Everything that operators do, while everything else runs."""

from contextlib import suppress
from random import Random
from typing import Any

import psycopg

from chaos.scene import Scene
from chaos.storms.storm import Storm

TYPES = ["on_event_loop", "on_thread", "in_child_process", "pay", "limited", "deployed", "other_0", "beat"]
# Not those of a key, unique or limited: one that is cancelled still runs for a moment beside the next of them. And none
# of a workflow, or that waits: retrying one of them changes what the others may do.
SOME = """
    select id from treadle.jobs as job
    where status = any(%s) and key is null and unique_key is null and data ? 'token' and job_type <> 'limited'
      and not exists (select from treadle.dependencies as edge where job.id in (edge.job_id, edge.after_id))
    order by random() limit %s"""
# What may be known of a job no longer, once this was done to it.
ACTIONS = {
    "cancel": ("cancelling", ["pending", "claimed", "running"]),
    "retry": ("moving", ["failed", "cancelled"]),
    "run_now": ("moving", ["pending"]),
    "priority": ("moving", ["pending"]),
}


class Operators(Storm):
    name = "operators"
    about = (
        "operators pause, resume, cancel, retry, hasten and reprioritize jobs, and change the concurrency of workers"
    )
    every = (0.1, 0.6)

    def inject(self, scene: Scene, rng: Random) -> None:
        act = rng.choice([self._pause, self._resume, self._operate, self._operate, self._set_concurrency])
        with suppress(psycopg.Error), scene.server.connect() as connection:
            act(scene, rng, connection)

    def end(self, scene: Scene) -> None:
        with scene.server.connect() as connection:
            self._resume_all(connection)
            connection.execute("select set_concurrency(worker_id, null) from treadle.workers")

    def _pause(self, scene: Scene, rng: Random, connection: psycopg.Connection[Any]) -> None:
        scene.ledger.note("fault", did="pause")
        connection.execute("select pause(%s, %s)", rng.choice([[rng.choice(TYPES), None], [None, "default"]]))

    def _resume(self, scene: Scene, rng: Random, connection: psycopg.Connection[Any]) -> None:
        self._resume_all(connection)

    def _resume_all(self, connection: psycopg.Connection[Any]) -> None:
        connection.execute("select resume(nullif(job_type, ''), nullif(queue, '')) from treadle.pauses")

    def _operate(self, scene: Scene, rng: Random, connection: psycopg.Connection[Any]) -> None:
        action = rng.choice(list(ACTIONS))
        what, statuses = ACTIONS[action]
        ids = [job for (job,) in connection.execute(SOME, [statuses, rng.randint(1, 8)])]
        scene.ledger.note("fault", did=f"operator: {action}", number=len(ids))
        for job in ids:
            scene.ledger.note(what, id=str(job))
        connection.execute(
            "select operate(%s, %s, p_actor => 'chaos', p_priority => %s)",
            [action, ids, rng.randint(0, 200) if action == "priority" else None],
        )

    def _set_concurrency(self, scene: Scene, rng: Random, connection: psycopg.Connection[Any]) -> None:
        scene.ledger.note("fault", did="concurrency changed")
        some = "(select worker_id from treadle.workers order by random() limit 1) as worker"
        connection.execute(
            f"select set_concurrency(worker_id, %s) from {some}".encode(), [rng.choice([0, 1, 20, None])]
        )

"""Faults inside of worker processes and supervisors: logging that raises, internal tasks that end or hang, handlers
that end the event loop."""

import itertools
import json
import os
import signal
from contextlib import suppress
from random import Random
from typing import ClassVar
from uuid import uuid4

import psycopg

from chaos.inside import CHILDREN, WISHES
from chaos.processes import ROOT
from chaos.scene import Scene
from chaos.storms.storm import Storm


class Wishes(Storm):
    """Makes processes harm themselves."""

    wishes: ClassVar[tuple[str, ...]] = ()

    def __init__(self) -> None:
        self._wishes = itertools.cycle(self.wishes)

    def before_workers(self, scene: Scene) -> None:
        folder = scene.folder / "inside"
        folder.mkdir(exist_ok=True)
        (folder / "sitecustomize.py").write_text("from chaos.inside import install\n\ninstall()\n")
        path = [str(folder), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        scene.worker_environment |= {WISHES: str(folder), "PYTHONPATH": os.pathsep.join(path)}

    def inject(self, scene: Scene, rng: Random) -> None:
        worker = scene.some_worker(rng)
        processes = worker.worker_processes() if worker else []
        if worker is None or not processes:
            return
        supervisor = worker.tree()[:1]
        wish, victim = next(self._wishes), rng.choice([*processes, *processes, *supervisor])
        where = "a supervisor" if victim in supervisor else "a worker process"
        scene.ledger.note("fault", did=f"{wish} in {where}", inside=victim.pid)
        (scene.folder / "inside" / str(victim.pid)).write_text(json.dumps([wish, rng.uniform(0.5, 4.0)]))


class Logging(Wishes):
    name = "logging"
    about = "a filter of the log raises in worker processes and supervisors, or stderr is closed"
    every = (0.3, 1.5)
    wishes = ("logging raises", "logging raises", "close stderr")


class Parts(Wishes):
    name = "parts"
    about = "an internal task of a worker process, or of the keeper in a supervisor, is cancelled, fails or hangs"
    every = (0.2, 1.5)
    wishes = ("cancel", "fail", "hang")


class SlowChildren(Wishes):
    name = "slow-children"
    about = "child processes are killed, and the next ones take up to 8 s to start, which is too long"
    every = (1.0, 3.0)

    def before_workers(self, scene: Scene) -> None:
        super().before_workers(scene)
        self._take(scene, 0.0)

    def inject(self, scene: Scene, rng: Random) -> None:
        worker = scene.some_worker(rng)
        children = worker.children() if worker else []
        if children:
            self._take(scene, rng.choice([0.0, 2.0, 5.0, 8.0]))
            scene.send([rng.choice(children)], signal.SIGKILL, "kill of a child, and a slow start")

    def end(self, scene: Scene) -> None:
        self._take(scene, 0.0)

    def _take(self, scene: Scene, seconds: float) -> None:
        draft = scene.folder / "inside" / "draft"
        draft.write_text(str(seconds))
        draft.rename(scene.folder / "inside" / CHILDREN)


class EventLoop(Storm):
    name = "event-loop"
    about = "handlers cancel all tasks of the event loop, stop it, or end the process when they have returned"
    every = (0.5, 3.0)

    def __init__(self) -> None:
        self._ways = itertools.cycle(["cancel all tasks", "stop the loop", "exit late"])

    def inject(self, scene: Scene, rng: Random) -> None:
        way, token = next(self._ways), uuid4().hex
        scene.ledger.note("fault", did=way)
        scene.ledger.note("invoked", tokens=[token])
        payload = {"token": token, "seconds": 0.0, "exclusive": [], "ending": {"ends_loop": way}}
        with suppress(psycopg.Error), scene.server.connect() as connection:
            enqueue = "select enqueue('on_event_loop', %s, p_max_attempts => %s)"
            (job,) = connection.execute(enqueue, [json.dumps(payload), rng.choice([1, 3])]).fetchone() or ("",)
            scene.ledger.note("returned", tokens=[token], ids=[str(job)])

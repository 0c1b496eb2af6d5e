"""Faults of processes: kill -9 and SIGSTOP."""

import itertools
import signal
import time
from random import Random

import psutil

from chaos.scene import Scene
from chaos.storms.storm import Storm


class Kills(Storm):
    name = "kills"
    about = "kill -9 of worker processes, their children, supervisors, whole process trees, and producers"
    every = (0.4, 2.0)

    def inject(self, scene: Scene, rng: Random) -> None:
        kind = rng.choices(["worker", "child", "supervisor", "tree", "producer"], [4, 4, 2, 1, 1])[0]
        if kind == "producer":
            producer = rng.choice([each for each in scene.producers if each is not None] or [None])
            if producer is not None and producer.poll() is None:
                scene.send([psutil.Process(producer.pid)], signal.SIGKILL, "kill of a producer")
            return
        worker = scene.some_worker(rng)
        if worker is None:
            return
        process = worker.worker_process()
        victims = {
            "worker": [process] if process else [],
            "child": worker.children()[:1],
            "supervisor": worker.tree()[:1],
            "tree": worker.tree(),
        }
        # There may be no child process at the moment, or no worker process.
        kind = next((each for each in (kind, "worker", "supervisor") if victims[each]), kind)
        if victims[kind]:
            scene.send(victims[kind], signal.SIGKILL, f"kill of a {kind}")


class Machines(Storm):
    name = "machines"
    about = "three whole workers killed one after the other, each when it has recovered the jobs of the one before"
    every = (0.5, 1.5)

    def inject(self, scene: Scene, rng: Random) -> None:
        for _ in range(3):
            worker = scene.some_worker(rng)
            if worker is not None:
                scene.send(worker.tree(), signal.SIGKILL, "loss of a machine")
            # The lease runs out, and a worker that checks three times per lease recovers the jobs.
            time.sleep(scene.lease * rng.uniform(1.0, 1.4))


class Stops(Storm):
    name = "stops"
    about = "SIGSTOP and SIGCONT of a whole worker (up to two leases), of a supervisor, of a worker process"
    every = (1.0, 3.0)

    def __init__(self) -> None:
        self._kinds = itertools.cycle(["tree", "process", "supervisor"])

    def inject(self, scene: Scene, rng: Random) -> None:
        worker = scene.some_worker(rng)
        if worker is None:
            return
        kind = next(self._kinds)
        tree = worker.tree()
        if kind == "process":
            # The supervisor keeps renewing the lease, so the process is only slow, and an overlap is a violation.
            process = worker.worker_process()
            if process is not None:
                scene.send([process], signal.SIGSTOP, "stop of a worker process")
                time.sleep(rng.uniform(0.5, 1.5 * scene.lease))
                scene.send([process], signal.SIGCONT, "continue of a worker process")
            return
        victims = tree if kind == "tree" else tree[:1]
        # While the supervisor is stopped, nothing kills a handler that does not stop. The checker therefore allows
        # overlaps with any process of this tree.
        scene.ledger.note("fault", did="stopped", pids=[each.pid for each in tree])
        scene.send(victims, signal.SIGSTOP, f"stop of a {kind}")
        time.sleep(rng.choice([0.5, 1.2, 2.0]) * scene.lease)
        scene.send(victims, signal.SIGCONT, f"continue of a {kind}")
        scene.ledger.note("fault", did="continued", pids=[each.pid for each in tree])

    def end(self, scene: Scene) -> None:
        for worker in filter(None, scene.workers):
            worker.signal_all(signal.SIGCONT)

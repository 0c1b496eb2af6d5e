"""A rolling upgrade: the schema is migrated while this version runs, then its processes are replaced by the next one.

The next version is made by the storm: see next_version.py. The storm shows that workers and producers of this version
keep working during and after the migration, next to new ones, and that nothing is lost.

The migration is compatible. So at the end processes of both versions are started on the newer schema: a roll-back of
the package, and another try.
"""

import signal
from pathlib import Path
from random import Random

from chaos.next_version import VERSION, write_next_version
from chaos.scene import Scene
from chaos.storms.storm import Storm


class Upgrade(Storm):
    name = "upgrade"
    about = "a rolling upgrade to the next schema, under load"
    every = (2.0, 4.0)

    def before_workers(self, scene: Scene) -> None:
        self._steps = 0
        write_next_version(self._folder(scene))

    def inject(self, scene: Scene, rng: Random) -> None:
        self._steps += 1
        if self._steps == 1:
            self._migrate(scene)
        elif self._steps - 2 < len(scene.workers):
            old = scene.workers[self._steps - 2]
            if old is not None:
                scene.ledger.note("fault", did="deploy of a worker")
                old.terminate()
        elif self._steps - 2 - len(scene.workers) < len(scene.producers):
            producer = scene.producers[self._steps - 2 - len(scene.workers)]
            if producer is not None:
                scene.ledger.note("fault", did="deploy of a producer")
                producer.send_signal(signal.SIGTERM)
        else:
            self._restart_either_version(scene, rng)

    def _folder(self, scene: Scene) -> Path:
        return scene.folder / "next"

    def _migrate(self, scene: Scene) -> None:
        scene.ledger.note("fault", did="migration")
        scene.environment["PYTHONPATH"] = str(self._folder(scene))
        scene.run_python("-m", "treadle", "migrate")
        with scene.server.connect() as connection:
            (version,) = connection.execute("select max(version) from treadle.migrations").fetchone() or (0,)
            if version != VERSION:
                raise AssertionError(f"expected the next version to create schema {VERSION}, got {version}")

    def _restart_either_version(self, scene: Scene, rng: Random) -> None:
        older = rng.random() < 0.5
        if older:
            scene.environment.pop("PYTHONPATH", None)
        else:
            scene.environment["PYTHONPATH"] = str(self._folder(scene))
        worker = rng.choice(scene.workers)
        if worker is not None:
            scene.ledger.note("fault", did=f"restart of {'this' if older else 'the next'} version")
            worker.terminate()

    def end(self, scene: Scene) -> None:
        if not self._steps:
            self._migrate(scene)

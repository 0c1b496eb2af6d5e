"""The previous version of Treadle at work; the schema is migrated under it; the new version takes over, one by one.

The previous version is 0.1.0, with schema 5, kept as an archive (see decision 21). The storm shows that its workers
and producers go on while the migration runs and after it, beside new ones, although functions were renamed, and that
nothing is lost. It does not show a way back.
"""

import signal
import tarfile
from pathlib import Path

from chaos.scene import Scene
from chaos.storms.storm import Chance, Storm
from treadle import migrate

ARCHIVE = Path(__file__).parent.parent / "previous.tar.xz"
SCHEMA = 5


class Upgrade(Storm):
    name = "upgrade"
    about = "a rolling upgrade from the previous schema, under load"
    every = (2.0, 4.0)

    def prepare(self, scene: Scene) -> None:
        scene.empty = True
        self._steps = 0

    def join(self, scene: Scene) -> None:
        old = scene.folder / "previous"
        with tarfile.open(ARCHIVE) as archive:
            archive.extractall(old, filter="data")
        scene.environment["PYTHONPATH"] = str(old / "src")
        scene.run_python("-m", "treadle", "migrate")
        with scene.server.connect() as connection:
            (version,) = connection.execute("select max(version) from treadle.migrations").fetchone() or (0,)
            if version != SCHEMA:
                raise AssertionError(f"the previous version should make schema {SCHEMA}, made {version}")

    def strike(self, scene: Scene, chance: Chance) -> None:
        self._steps += 1
        if self._steps == 1:
            scene.ledger.note("fault", did="migration")
            migrate(scene.server.url)
            scene.environment.pop("PYTHONPATH")
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

    def cease(self, scene: Scene) -> None:
        if scene.environment.pop("PYTHONPATH", None):
            migrate(scene.server.url)

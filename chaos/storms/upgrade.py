"""A rolling upgrade: the schema is migrated while the previous version runs, then its processes are replaced.

The previous version is 0.1.0, with schema 5, kept as an archive (see decision 21). The storm shows that its workers
and producers keep working during and after the migration, next to new ones, although functions were renamed, and that
nothing is lost.

Then the schema is said to be that of a version to come, whose migration is compatible. Processes of this version, which
are started after it, work on: a rolling deploy of that version, or a roll-back of its package.
"""

import signal
import tarfile
from pathlib import Path
from random import Random

from chaos.scene import Scene
from chaos.storms.storm import Storm
from treadle import migrate

ARCHIVE = Path(__file__).parent.parent / "previous.tar.xz"
SCHEMA = 5


def unpack_previous(folder: Path) -> None:
    """The sources of the previous version."""
    with tarfile.open(ARCHIVE) as archive:
        # Not as an argument: Python 3.11.2, of Debian 12, does not have it.
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(folder)  # noqa: S202


class Upgrade(Storm):
    name = "upgrade"
    about = "a rolling upgrade from the previous schema, under load"
    every = (2.0, 4.0)

    def before_server(self, scene: Scene) -> None:
        scene.empty = True
        self._steps = 0

    def before_workers(self, scene: Scene) -> None:
        old = scene.folder / "previous"
        unpack_previous(old)
        scene.environment["PYTHONPATH"] = str(old / "src")
        scene.run_python("-m", "treadle", "migrate")
        with scene.server.connect() as connection:
            (version,) = connection.execute("select max(version) from treadle.migrations").fetchone() or (0,)
            if version != SCHEMA:
                raise AssertionError(f"expected the previous version to create schema {SCHEMA}, got {version}")

    def inject(self, scene: Scene, rng: Random) -> None:
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
        else:
            self._run_on_newer_schema(scene, rng)

    def _run_on_newer_schema(self, scene: Scene, rng: Random) -> None:
        with scene.server.connect() as connection:
            connection.execute(
                "insert into treadle.migrations (version, name) values (998, '0998_next.compatible.sql')"
                " on conflict do nothing"
            )
        worker = rng.choice(scene.workers)
        if worker is not None:
            scene.ledger.note("fault", did="restart on a newer schema")
            worker.terminate()

    def end(self, scene: Scene) -> None:
        if scene.environment.pop("PYTHONPATH", None):
            migrate(scene.server.url)

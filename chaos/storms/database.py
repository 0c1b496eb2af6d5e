"""A database that dies, throws clients out, has no room for them, or none on its disk."""

import errno
import os
import shutil
import subprocess
import time
from contextlib import suppress
from typing import Any

import psycopg

from chaos.scene import Scene
from chaos.storms.storm import Chance, Storm
from chaos.waiting import until

OURS = "backend_type = 'client backend' and pid <> pg_backend_pid()"


class Restarts(Storm):
    name = "restarts"
    about = "immediate shutdowns of PostgreSQL, which then recovers from its log"
    every = (3.0, 7.0)

    def strike(self, scene: Scene, chance: Chance) -> None:
        scene.ledger.note("fault", did="restart of the server")
        scene.server.crash()
        # Now and then for longer than a lease: everybody has to stop, and nobody is to blame.
        time.sleep(chance.choice([0.0, 0.3, 0.3, 1.5 * scene.lease]))
        scene.server.come_back()

    def cease(self, scene: Scene) -> None:
        if not scene.server.answers():
            scene.server.come_back()


class Terminations(Storm):
    name = "terminations"
    about = "pg_terminate_backend of some connections, or of all"
    every = (0.3, 1.5)

    def strike(self, scene: Scene, chance: Chance) -> None:
        query = f"select pg_terminate_backend(pid) from pg_stat_activity where {OURS} and random() < %s"
        with suppress(psycopg.Error), scene.server.connect() as connection:
            number = len(connection.execute(query.encode(), [chance.choice([0.1, 0.5, 1.0])]).fetchall())
            scene.ledger.note("fault", did="terminated backends", number=number)


class Exhaustion(Storm):
    name = "exhaustion"
    about = "all of max_connections taken, after the others were thrown out"
    every = (2.0, 5.0)

    def __init__(self) -> None:
        self._taken: list[psycopg.Connection[Any]] = []

    def strike(self, scene: Scene, chance: Chance) -> None:
        scene.ledger.note("fault", did="all connections taken")
        end = time.monotonic() + chance.uniform(1.0, 5.0)
        while time.monotonic() < end:
            try:
                self._taken.append(scene.server.connect())
            except psycopg.OperationalError:
                with suppress(psycopg.Error):
                    self._throw_out(chance)
                time.sleep(0.1)
        self.cease(scene)

    def _throw_out(self, chance: Chance) -> None:
        query = f"select pg_terminate_backend(pid) from pg_stat_activity where {OURS} and not pid = any(%s)"
        if self._taken and chance.random() < 0.3:
            mine = [each.info.backend_pid for each in self._taken]
            self._taken[0].execute(query.encode(), [mine])

    def cease(self, scene: Scene) -> None:
        while self._taken:
            with suppress(psycopg.Error):
                self._taken.pop().close()


class DiskFull(Storm):
    name = "disk-full"
    about = "no room left on the server's volume, a small tmpfs (needs root)"
    every = (3.0, 6.0)

    def missing(self) -> str | None:
        if os.geteuid() != 0 or shutil.which("mount") is None:
            return "only root can mount a small volume"
        return None

    def prepare(self, scene: Scene) -> None:
        volume = scene.folder / "volume"
        volume.mkdir()
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=400m,mode=711", "tmpfs", volume], check=False, capture_output=True
        )
        if done.returncode:
            raise RuntimeError(f"no tmpfs could be mounted: {done.stderr.decode().strip()}")
        scene.stack.callback(lambda: subprocess.run(["umount", "-l", volume], check=False))
        scene.server_folder = volume / "server"
        # Checkpoints early, so that the log does not fill the volume by itself.
        scene.settings |= {"max_wal_size": "64MB", "min_wal_size": "32MB"}

    def strike(self, scene: Scene, chance: Chance) -> None:
        scene.ledger.note("fault", did="disk full")
        filler = scene.folder / "volume" / "filler"
        end = time.monotonic() + chance.uniform(2.0, 2.0 * scene.lease)
        with filler.open("wb", buffering=0) as file:
            while time.monotonic() < end:
                try:
                    file.write(bytes(1_000_000))
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                    with suppress(OSError):
                        file.write(bytes(4096))
                    time.sleep(0.05)
        filler.unlink()
        self.cease(scene)

    def cease(self, scene: Scene) -> None:
        (scene.folder / "volume" / "filler").unlink(missing_ok=True)
        # It may have ended: where the log cannot be written it panics, and then cannot recover.
        time.sleep(0.5)
        if not scene.server.answers():
            scene.ledger.note("fault", did="restart of a server that a full disk had stopped")
            with suppress(OSError, AssertionError):
                scene.server.crash()
            scene.server.come_back()
        until(scene.server.answers, seconds=60)

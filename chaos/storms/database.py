"""Faults of the server: crashes, terminated backends, no free connections, a full disk, transactions left open."""

import errno
import itertools
import os
import shutil
import subprocess
import time
from contextlib import suppress
from random import Random
from typing import Any

import psycopg

from chaos.cluster import Cluster, ServerMissing, binaries
from chaos.scene import Scene
from chaos.storms.storm import Storm
from chaos.waiting import until
from treadle import migrate

OTHER_BACKENDS = "backend_type = 'client backend' and pid <> pg_backend_pid()"


class Restarts(Storm):
    name = "restarts"
    about = "immediate shutdowns of PostgreSQL, followed by crash recovery"
    every = (3.0, 7.0)

    def inject(self, scene: Scene, rng: Random) -> None:
        scene.ledger.note("fault", did="restart of the server")
        scene.server.crash()
        # Sometimes for longer than a lease, so that every worker has to stop its handlers.
        time.sleep(rng.choice([0.0, 0.3, 0.3, 1.5 * scene.lease]))
        scene.server.come_back()

    def end(self, scene: Scene) -> None:
        if not scene.server.answers():
            scene.server.come_back()


class Failover(Restarts):
    name = "failover"
    about = "the primary is killed and its synchronous standby promoted, which is killed and restarted from then on"

    def missing(self) -> str | None:
        try:
            binaries(None)
        except ServerMissing as reason:
            return str(reason)
        return None

    def before_server(self, scene: Scene) -> None:
        def cluster() -> Cluster:
            made = Cluster(synchronous=True).__enter__()
            migrate(made.url)
            return made

        scene.make_server = cluster
        # The proxy leads to the primary alone, so storms of the network have no effect.
        scene.client_url = lambda _: scene.server.url


class Terminations(Storm):
    name = "terminations"
    about = "pg_terminate_backend of some connections, or of all of them"
    every = (0.3, 1.5)

    def inject(self, scene: Scene, rng: Random) -> None:
        query = f"select pg_terminate_backend(pid) from pg_stat_activity where {OTHER_BACKENDS} and random() < %s"
        with suppress(psycopg.Error), scene.server.connect() as connection:
            number = len(connection.execute(query.encode(), [rng.choice([0.1, 0.5, 1.0])]).fetchall())
            scene.ledger.note("fault", did="terminated backends", number=number)


class OpenWriters(Storm):
    name = "open-writers"
    about = "transactions that have written something stay open, some of them prepared, for up to half a minute"
    every = (0.5, 3.0)

    def __init__(self) -> None:
        self._open: list[tuple[float, psycopg.Connection[Any], str]] = []
        self._numbers = itertools.count()

    def before_server(self, scene: Scene) -> None:
        scene.settings |= {"max_prepared_transactions": "20"}

    def inject(self, scene: Scene, rng: Random) -> None:
        self._end_those(scene, before=time.monotonic())
        with suppress(psycopg.Error):
            connection = scene.server.connect()
            connection.execute("begin")
            connection.execute("select pg_current_xact_id()")
            name = ""
            if rng.random() < 0.3:
                name = f"open-{next(self._numbers)}"
                connection.execute(f"prepare transaction '{name}'".encode())
            scene.ledger.note("fault", did="left a transaction open", prepared=bool(name))
            self._open.append((time.monotonic() + rng.choice([1.0, 5.0, 30.0]), connection, name))

    def end(self, scene: Scene) -> None:
        until(scene.server.answers)
        self._end_those(scene, before=float("inf"))

    def _end_those(self, scene: Scene, before: float) -> None:
        for each in [each for each in self._open if each[0] <= before]:
            _, connection, name = each
            with suppress(psycopg.Error):
                connection.close()
                if name:
                    with scene.server.connect() as other:
                        other.execute(f"rollback prepared '{name}'".encode())
                self._open.remove(each)


class Exhaustion(Storm):
    name = "exhaustion"
    about = "all of max_connections in use by another client, after other backends were terminated"
    every = (2.0, 5.0)

    def __init__(self) -> None:
        self._taken: list[psycopg.Connection[Any]] = []

    def inject(self, scene: Scene, rng: Random) -> None:
        scene.ledger.note("fault", did="all connections in use")
        end = time.monotonic() + rng.uniform(1.0, 5.0)
        while time.monotonic() < end:
            try:
                self._taken.append(scene.server.connect())
            except psycopg.OperationalError:
                with suppress(psycopg.Error):
                    self._terminate_others(rng)
                time.sleep(0.1)
        self.end(scene)

    def _terminate_others(self, rng: Random) -> None:
        query = f"select pg_terminate_backend(pid) from pg_stat_activity where {OTHER_BACKENDS} and not pid = any(%s)"
        if self._taken and rng.random() < 0.3:
            mine = [each.info.backend_pid for each in self._taken]
            self._taken[0].execute(query.encode(), [mine])

    def end(self, scene: Scene) -> None:
        while self._taken:
            with suppress(psycopg.Error):
                self._taken.pop().close()


class DiskFull(Storm):
    name = "disk-full"
    about = "no space left on the server's volume, a small tmpfs (needs root)"
    every = (3.0, 6.0)

    def missing(self) -> str | None:
        if os.geteuid() != 0 or shutil.which("mount") is None:
            return "mounting a small volume requires root"
        return None

    def before_server(self, scene: Scene) -> None:
        volume = scene.folder / "volume"
        volume.mkdir()
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=400m,mode=711", "tmpfs", volume], check=False, capture_output=True
        )
        if done.returncode:
            raise RuntimeError(f"cannot mount a tmpfs: {done.stderr.decode().strip()}")
        scene.stack.callback(lambda: subprocess.run(["umount", "-l", volume], check=False))
        scene.server_folder = volume / "server"
        # Early checkpoints, so that the WAL alone does not fill the volume.
        scene.settings |= {"max_wal_size": "64MB", "min_wal_size": "32MB"}

    def inject(self, scene: Scene, rng: Random) -> None:
        scene.ledger.note("fault", did="disk full")
        filler = scene.folder / "volume" / "filler"
        end = time.monotonic() + rng.uniform(2.0, 2.0 * scene.lease)
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
        self.end(scene)

    def end(self, scene: Scene) -> None:
        (scene.folder / "volume" / "filler").unlink(missing_ok=True)
        # The server may have exited: it panics if it cannot write WAL, and then cannot recover on a full disk.
        time.sleep(0.5)
        if not scene.server.answers():
            scene.ledger.note("fault", did="restart of a server that stopped because of the full disk")
            with suppress(OSError, AssertionError):
                scene.server.crash()
            scene.server.come_back()
        until(scene.server.answers, seconds=60)

"""The server loses power: what was acknowledged before that is there afterwards."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import psutil
import psycopg

from chaos.judge import FINISHED
from chaos.ledger import read
from chaos.scene import Scene
from chaos.servers import Server
from chaos.storms.storm import Storm

FLUSHED = """
    select file_name, file_offset
    from pg_walfile_name_offset(pg_current_wal_flush_lsn())"""


class PowerLoss(Storm):
    """All processes of the server are stopped for as long as its files are copied. What of its log was not flushed to
    disk by then is overwritten with zeros in the copy, as the power loss would lose it. Then the copy is started."""

    name = "power-loss"
    about = (
        "the server's files are copied at a random moment without what was not flushed, and started as another server"
    )
    every = (1.0, 6.0)

    def inject(self, scene: Scene, rng: Random) -> None:
        copy = scene.folder / "copy"
        try:
            with scene.server.connect() as connection:
                (fsync,) = connection.execute("show fsync").fetchone() or ("",)
                before = time.monotonic()
                file, offset = connection.execute(FLUSHED).fetchone() or ("", 0)
        except psycopg.OperationalError:
            return
        if fsync != "on" or not isinstance(scene.server, Server):
            raise AssertionError("without fsync, nothing is promised, and of a cluster there is no copy")
        scene.ledger.note("fault", did="loss of power, of a copy")
        with _stopped(scene.server):
            subprocess.run(["cp", "-a", scene.server.folder, copy], check=True)
        _lose(copy / "data", file, offset)
        try:
            self._compare(scene, copy, before)
        finally:
            shutil.rmtree(copy)

    def _compare(self, scene: Scene, copy: Path, before: float) -> None:
        server = Server(copy, scene.settings)
        try:
            with server.connect() as connection:
                rows = dict(connection.execute("select id::text, status from jobs").fetchall())
        finally:
            server.close()
        records = read(scene.ledger.folder)
        # An operator may have given these another status after the outcome was accepted.
        moved = {record["id"] for record in records if record["what"] == "moving"}
        missing = []
        for record in records:
            if record["at"] > before:
                break
            if record["what"] == "returned":
                missing += [f"job {job} was enqueued, and is gone" for job in record["ids"] if job not in rows]
            elif record["what"] == "accepted" and record["outcome"] in FINISHED and record["id"] not in moved:
                status = rows.get(record["id"])
                missing += [f"job {record['id']} was {record['outcome']}, and is {status}"] * (
                    status != record["outcome"]
                )
        if missing:
            raise AssertionError(f"lost with the power: {missing[:5]}, {len(missing)} in all")


@contextmanager
def _stopped(server: Server) -> Iterator[None]:
    """The postmaster first, so that it starts no others."""
    postmaster = psutil.Process(int((server.folder / "data" / "postmaster.pid").read_text().split()[0]))
    postmaster.send_signal(signal.SIGSTOP)
    others = postmaster.children(recursive=True)
    try:
        for each in others:
            each.send_signal(signal.SIGSTOP)
        yield
    finally:
        for each in [*others, postmaster]:
            each.send_signal(signal.SIGCONT)


def _lose(data: Path, last: str, offset: int) -> None:
    """Nothing of the log after this place has reached the disk."""
    (data / "postmaster.pid").unlink()
    for file in (data / "pg_wal").glob("[0-9A-F]" * 24):
        if file.name > last:
            file.unlink()
        elif file.name == last:
            size = file.stat().st_size
            with file.open("r+b") as log:
                log.seek(offset)
                log.write(bytes(size - offset))
                os.fsync(log.fileno())

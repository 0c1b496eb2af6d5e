"""A database on a disk that can be filled up: a tablespace on a small tmpfs.

Its server must be one that no other test uses: while the disk is full, no checkpoint succeeds, and without one nobody
can create a database.
"""

import errno
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from treadle import migrate

SIZE = "40m"


class SmallDisk:
    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self._filler = folder / "filler"

    def fill(self) -> None:
        """Leave no room. What the server has allocated already can still be written."""
        with suppress(FileNotFoundError, OSError), self._filler.open("ab", buffering=0) as file:
            for size in (1_000_000, 4096):
                with suppress(_NoRoom):
                    while True:
                        _write(file.fileno(), size)

    def make_room(self) -> None:
        self._filler.unlink(missing_ok=True)


class _NoRoom(Exception):
    pass


def _write(descriptor: int, size: int) -> None:
    try:
        os.write(descriptor, bytes(size))
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        raise _NoRoom from None


@contextmanager
def small_disk(server_url: str) -> Iterator[SmallDisk]:
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("mounting a small volume requires root")
    sockets = Path(str(conninfo_to_dict(server_url)["host"]))
    folder = Path(tempfile.mkdtemp(prefix="treadle-disk-"))
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE},mode=711", "tmpfs", str(folder)]
    if (done := subprocess.run(mount, capture_output=True, text=True, check=False)).returncode:
        folder.rmdir()
        pytest.skip(f"a small volume cannot be mounted: {done.stderr.strip()}")
    name = f"treadle_disk_{uuid4().hex[:12]}"
    try:
        space = folder / "space"
        space.mkdir(mode=0o700)
        os.chown(space, sockets.stat().st_uid, sockets.stat().st_gid)
        with psycopg.connect(server_url, autocommit=True) as server:
            server.execute(f"create tablespace {name} location '{space}'")
            try:
                server.execute(f"create database {name} tablespace {name}")
                disk = SmallDisk(make_conninfo(server_url, dbname=name), folder)
                migrate(disk.url)
                yield disk
                disk.make_room()
            finally:
                server.execute(f"drop database if exists {name} with (force)")
                server.execute(f"drop tablespace {name}")
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=False)
        folder.rmdir()

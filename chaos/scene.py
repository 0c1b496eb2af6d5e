"""Everything that takes part in one run: a server, a proxy before it, workers, and producers."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import psutil
import psycopg

from chaos.checker import Row, Tables, Verdict, check
from chaos.ledger import FOLDER, Ledger, read
from chaos.processes import ROOT, WorkerProcess
from chaos.proxy import Proxy
from chaos.servers import QUICK, Server

CRASH_LIMIT = 5
STUCK_SECONDS = 180.0  # a starved machine needs a minute to start a worker
SETTINGS = {"max_connections": "60"}
PATIENCE = 10.0  # seconds: the tcp_user_timeout of our connections (treadle/db/url.py)

TABLES = """
create table if not exists public.orders (token text primary key);
create table if not exists public.effects (job_id uuid, lease bigint);
"""
ROWS = """
    select id::text, coalesce(data->>'token', ''), job_type, status, lease, attempts, max_attempts, crashes,
        (result->>'lease')::bigint
    from treadle.jobs"""


class Scene:
    """Made, then disturbed, then calmed, then judged."""

    def __init__(self, folder: Path, seed: int, *, pause: float = 0.15, lease: float = 5.0, fsync: bool = True) -> None:
        self.folder = folder
        self.seed = seed
        self.lease = lease
        self.ledger = Ledger(folder / "ledger")
        self.ledger.folder.mkdir(parents=True)
        self.settings = SETTINGS | ({} if fsync else QUICK)
        self.empty = False
        """Whether the server begins without a schema."""
        self.server_folder: Path | None = None
        self.environment: dict[str, str] = {}
        self.worker_environment: dict[str, str] = {}
        self.through: Callable[[str], str] = lambda url: url
        """What stands between the proxy and its clients."""
        self.stack = ExitStack()
        self.workers: list[WorkerProcess | None] = [None, None]
        self.producers: list[subprocess.Popen[bytes] | None] = [None, None]
        self.workers_may_start = True
        self._pause = pause
        self._numbers = iter(range(10**9))
        self._lock = threading.RLock()
        self._calm = False
        self._closing = False

    # Beginning and end

    def begin(self) -> None:
        folder = self.server_folder or self.folder / "server"
        self.server = Server(folder, self.settings, empty=self.empty)
        self.stack.callback(self.server.close)
        with self.server.connect() as connection:
            connection.execute(TABLES.encode())
        self.proxy = Proxy(self.server.url, PATIENCE)
        self.stack.callback(self.proxy.close)
        self.url = self.through(self.proxy.url)

    def populate(self) -> None:
        for n in range(len(self.workers)):
            self.start_worker(n)
        for n in range(len(self.producers)):
            self.start_producer(n)
        for worker in filter(None, self.workers):
            worker.started()

    def close(self) -> None:
        self._closing = True
        for worker in filter(None, self.workers):
            worker.signal_all(signal.SIGCONT)
            worker.kill_all()
        for producer in filter(None, self.producers):
            producer.kill()
            producer.wait()
        self.stack.close()

    # Who takes part

    def start_worker(self, nth: int) -> None:
        options = ["--lease", f"{self.lease}s", "--crash-limit", str(CRASH_LIMIT), "--concurrency", "10"]
        options += ["--children", "2", "--processes", str(1 + nth % 2)]
        log = self.folder / f"worker-{nth}-{next(self._numbers)}.log"
        environment = self._environment() | self.worker_environment
        self.workers[nth] = WorkerProcess(self.url, log, *options, app="chaos.app:app", **environment)

    def start_producer(self, nth: int) -> None:
        command = [sys.executable, "-m", "chaos.load", "--seed", str(self.seed * 100 + next(self._numbers))]
        with (self.folder / "producers.log").open("a") as log:
            self.producers[nth] = subprocess.Popen(
                [*command, "--pause", str(self._pause)],
                stdout=log,
                stderr=log,
                cwd=ROOT,
                env=os.environ | {"TREADLE_DATABASE_URL": self.url} | self._environment(),
            )

    def replace_the_dead(self) -> None:
        with self._lock:
            for n, worker in enumerate(self.workers):
                if (worker is None or not worker.alive()) and self.workers_may_start:
                    self.start_worker(n)
            for n, producer in enumerate(self.producers):
                if not self._calm and (producer is None or producer.poll() is not None):
                    self.start_producer(n)

    def some_worker(self, chance: random.Random) -> WorkerProcess | None:
        alive = [worker for worker in self.workers if worker is not None and worker.alive()]
        return chance.choice(alive) if alive else None

    def send(self, victims: list[psutil.Process], number: int, did: str) -> None:
        """Noted first, so that nothing that comes of it is older than it."""
        self.ledger.note("fault", did=did, pids=[each.pid for each in victims])
        for each in victims:
            with suppress(psutil.NoSuchProcess):
                each.send_signal(number)

    # The calm after the storm

    def stop_the_load(self) -> None:
        with self._lock:
            self._calm = True
        for producer in filter(None, self.producers):
            producer.terminate()
        for producer in filter(None, self.producers):
            producer.wait(60)
        self.producers = [None] * len(self.producers)

    def drain(self) -> bool:
        """Until every job has ended; False if for long none does."""
        left = "select count(*) from treadle.jobs where status in ('pending', 'claimed', 'running')"
        fewest, since = float("inf"), time.monotonic()
        with self.server.connect() as connection:
            while time.monotonic() - since < STUCK_SECONDS:
                self.replace_the_dead()
                (number,) = connection.execute(left).fetchone() or (0,)
                if not number:
                    return True
                if number < fewest:
                    fewest, since = number, time.monotonic()
                time.sleep(0.2)
        return False

    def stop_the_workers(self) -> None:
        """As a deploy does: what was accepted is in the ledger then."""
        self.workers_may_start = False
        for worker in filter(None, self.workers):
            worker.terminate()
        for worker in filter(None, self.workers):
            with suppress(subprocess.TimeoutExpired):
                worker.ended(30)

    def judge(self) -> Verdict:
        with psycopg.connect(self.server.url, autocommit=True) as connection:
            found = Tables(
                [Row(*row) for row in connection.execute(ROWS).fetchall()],
                _pairs(connection, "select job_id::text, lease from treadle.errors where lease is not null"),
                frozenset(token for (token,) in connection.execute("select token from public.orders").fetchall()),
                _pairs(connection, "select job_id::text, lease from public.effects"),
            )
        return check(read(self.ledger.folder), found, CRASH_LIMIT)

    def run_python(self, *command: str) -> None:
        environment = os.environ | {"TREADLE_DATABASE_URL": self.server.url} | self._environment()
        subprocess.run([sys.executable, *command], check=True, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL)

    def _environment(self) -> dict[str, str]:
        return {FOLDER: str(self.ledger.folder), **self.environment}


def _pairs(connection: psycopg.Connection[Any], query: str) -> list[tuple[str, int]]:
    return [(job_id, lease) for job_id, lease in connection.execute(query.encode()).fetchall()]

"""Everything that takes part in one run: the server, a proxy in front of it, workers and producers."""

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

from chaos.checker import Row, Tables, Verdict, check, row_fields
from chaos.cluster import Cluster
from chaos.ledger import FOLDER, Ledger, count, read
from chaos.moves import MOVES, read_moves
from chaos.processes import ROOT, WorkerProgram
from chaos.proxy import Proxy
from chaos.servers import QUICK, Server

CRASH_LIMIT = 5
STUCK_SECONDS = 180.0  # an overloaded machine needs a minute to start a worker
SETTINGS = {"max_connections": "60"}
TCP_USER_TIMEOUT = 10.0  # seconds, as in treadle/db/url.py

PLAIN = "plain-1"
"""The client of storms/plain_sql.py: it stores no results."""
TABLES = f"""
create table if not exists public.orders (token text primary key);
create table if not exists public.effects (job_id uuid, lease bigint);
{MOVES.format(only="new.job_type = 'deployed' and")}
"""
# Without the jobs of schedules, and without workflows and their signals.
ROWS = f"""
    select id::text, data->>'token', job_type, status, lease, attempts, max_attempts, crashes,
        case when worker_id = '{PLAIN}' then lease else (result->>'lease')::bigint end, coalesce(losses, 0)
    from treadle.jobs
    where data ? 'token'"""


class Scene:
    """The parts of one run, in the order of a run: start, inject faults, stop the producers, drain, stop, check."""

    def __init__(self, folder: Path, seed: int, *, pause: float = 0.15, lease: float = 5.0, fsync: bool = True) -> None:
        self.folder = folder
        self.seed = seed
        self.lease = lease
        self.ledger = Ledger(folder / "ledger")
        self.ledger.folder.mkdir(parents=True)
        self.settings = SETTINGS | ({} if fsync else QUICK)
        self.server_folder: Path | None = None
        self.server_environment: dict[str, str] = {}
        self.environment: dict[str, str] = {}
        self.worker_environment: dict[str, str] = {}
        self.client_url: Callable[[str], str] = lambda url: url
        """Returns the URL for clients, given the URL of the proxy. A storm can put a pooler in between."""
        self.make_server: Callable[[], Server | Cluster] = self._own_server
        self.stack = ExitStack()
        self.workers: list[WorkerProgram | None] = [None, None]
        self.producers: list[subprocess.Popen[bytes] | None] = [None, None]
        self.workers_may_start = True
        self._pause = pause
        self._numbers = iter(range(10**9))
        self._lock = threading.RLock()
        self._producers_stopped = False
        self._closing = False

    # Starting and stopping

    def start_server(self) -> None:
        self.server = self.make_server()
        self.stack.callback(self.server.close)
        with self.server.connect() as connection:
            connection.execute(TABLES.encode())
        self.proxy = Proxy(self.server.url, TCP_USER_TIMEOUT)
        self.stack.callback(self.proxy.close)
        self.url = self.client_url(self.proxy.url)

    def _own_server(self) -> Server:
        folder = self.server_folder or self.folder / "server"
        return Server(folder, self.settings, environment=self.server_environment)

    def start_workers_and_producers(self) -> None:
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

    # Workers and producers

    def start_worker(self, nth: int) -> None:
        options = ["--lease", f"{self.lease}s", "--crash-limit", str(CRASH_LIMIT), "--concurrency", "10"]
        options += ["--children", "2", "--processes", str(1 + nth % 2)]
        log = self.folder / f"worker-{nth}-{next(self._numbers)}.log"
        environment = self._environment() | self.worker_environment
        self.workers[nth] = WorkerProgram(self.url, log, *options, app="chaos.app:app", **environment)

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

    def restart_dead_processes(self) -> None:
        with self._lock:
            for n, worker in enumerate(self.workers):
                if (worker is None or not worker.alive()) and self.workers_may_start:
                    self.start_worker(n)
            for n, producer in enumerate(self.producers):
                if not self._producers_stopped and (producer is None or producer.poll() is not None):
                    self.start_producer(n)

    def some_worker(self, rng: random.Random) -> WorkerProgram | None:
        alive = [worker for worker in self.workers if worker is not None and worker.alive()]
        return rng.choice(alive) if alive else None

    def send(self, victims: list[psutil.Process], number: int, did: str) -> None:
        """Signal the processes. The fault is recorded first, so that no record of its effects is older."""
        pids = [each.pid for each in victims]
        self.ledger.note("fault", did=did)
        if number == signal.SIGKILL:
            self.ledger.note("fault", did="killed", pids=pids)
        for each in victims:
            with suppress(psutil.NoSuchProcess):
                each.send_signal(number)

    # After the storm

    def stop_producers(self) -> None:
        with self._lock:
            self._producers_stopped = True
        for producer in filter(None, self.producers):
            producer.terminate()
        for producer in filter(None, self.producers):
            producer.wait(60)
        with self.server.connect() as connection:
            connection.execute("select operate_schedule('pause', name) from schedules")
        self.producers = [None] * len(self.producers)

    def drain(self) -> bool:
        """Wait until every job is finished. Return False if no job finishes for STUCK_SECONDS."""
        left = "select count(*) from treadle.jobs where status in ('pending', 'claimed', 'running')"
        fewest, since = float("inf"), time.monotonic()
        with self.server.connect() as connection:
            while time.monotonic() - since < STUCK_SECONDS:
                self.restart_dead_processes()
                (number,) = connection.execute(left).fetchone() or (0,)
                if not number:
                    return True
                if number < fewest:
                    fewest, since = number, time.monotonic()
                time.sleep(0.2)
        return False

    def stop_workers(self) -> None:
        """Stop the workers gracefully, so that every accepted outcome is recorded in the ledger."""
        self.workers_may_start = False
        for worker in filter(None, self.workers):
            worker.terminate()
        for worker in filter(None, self.workers):
            with suppress(subprocess.TimeoutExpired):
                worker.ended(30)

    def runs(self) -> int:
        """How many handlers have started."""
        return count(self.ledger.folder, "start")

    def check_ledgers(self) -> Verdict:
        with psycopg.connect(self.server.url, autocommit=True) as connection:
            found = Tables(
                [Row(*row) for row in connection.execute(ROWS).fetchall()],
                _pairs(connection, "select job_id::text, lease from treadle.errors where lease is not null"),
                frozenset(token for (token,) in connection.execute("select token from public.orders").fetchall()),
                _pairs(connection, "select job_id::text, lease from public.effects"),
            )
            since = time.time() - time.monotonic()
            for move in read_moves(connection):
                what = "claimed" if move.status == "claimed" else "taken"
                self.ledger.note(what, id=move.job, lease=move.lease, at=move.at - since)
        verdict = check(read(self.ledger.folder), found, CRASH_LIMIT)
        for fields in row_fields(found, CRASH_LIMIT):
            self.ledger.note("row", **fields)
        return verdict

    def run_python(self, *command: str) -> None:
        environment = os.environ | {"TREADLE_DATABASE_URL": self.server.url} | self._environment()
        subprocess.run([sys.executable, *command], check=True, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL)

    def _environment(self) -> dict[str, str]:
        return {FOLDER: str(self.ledger.folder), **self.environment}


def _pairs(connection: psycopg.Connection[Any], query: str) -> list[tuple[str, int]]:
    return [(job_id, lease) for job_id, lease in connection.execute(query.encode()).fetchall()]

"""`treadle worker` as users start it: how fast it drains, and how soon it picks up a job."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from psycopg import Connection
from psycopg.types.json import Jsonb

from benchmarks.lanes.server import connect, cpu_seconds
from benchmarks.lanes.statements import enqueue, vacuum

ROOT = Path(__file__).parent.parent.parent
TIMEOUT = 600.0


@contextmanager
def worker(connection: Connection[Any], url: str, processes: int) -> Iterator[None]:
    """A `treadle worker` of the Treadle that this process has imported, once all of its processes are registered."""
    command = [sys.executable, "-m", "treadle", "worker", "benchmarks.lanes.app:app", "--processes", str(processes)]
    environment = os.environ | {"TREADLE_DATABASE_URL": url}
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)
        try:
            _until(connection, "select count(*) >= %s from treadle.workers", [processes])
            time.sleep(0.5)
            yield
        except TimeoutError as error:
            log.seek(0)
            raise RuntimeError(f"{error}; the worker's last words: {log.read()[-1000:]}") from error
        finally:
            process.terminate()
            process.wait()


def drain(url: str, jobs: int, types: list[str], processes: int) -> dict[str, float]:
    """Drain no-op jobs."""
    return drain_enqueued(url, jobs, processes, lambda connection: enqueue(connection, jobs, types))


def drain_enqueued(
    url: str, jobs: int, processes: int, enqueue_all: Callable[[Connection[Any]], None], more: int = 0
) -> dict[str, float]:
    """The jobs are enqueued while everything is paused, so that all processes begin together. `more` end with them."""
    with connect(url) as connection:
        connection.execute("select treadle.pause()")
        enqueue_all(connection)
        vacuum(connection)
        with worker(connection, url, processes):
            before = cpu_seconds(url)
            connection.execute("select treadle.resume()")
            _until(
                connection,
                "select not exists (select from treadle.jobs where status in ('pending', 'claimed', 'running'))",
            )
            used = cpu_seconds(url) - before
        found = connection.execute(
            """select count(*), count(*) / extract(epoch from max(completed_at) - min(claimed_at))::float8
            from treadle.jobs where status = 'completed'"""
        ).fetchone()
    assert found
    assert found[0] == jobs + more, f"{found[0]} of {jobs} jobs were completed"
    return {"jobs/s": found[1], "server CPU µs/job": used / jobs * 1e6}


def pick_up(url: str, tries: int) -> list[float]:
    """Milliseconds from the enqueue call to the first line of the handler, in a worker that is otherwise idle."""
    taken = []
    with connect(url) as connection, tempfile.NamedTemporaryFile() as file, worker(connection, url, 1):
        for _ in range(tries):
            time.sleep(0.02)
            began = time.clock_gettime(time.CLOCK_MONOTONIC)
            found = connection.execute("select treadle.enqueue('stamp', %s)", [Jsonb({"path": file.name})]).fetchone()
            assert found
            end = time.monotonic() + 30
            while not (content := Path(file.name).read_text()).startswith(f"{found[0]} "):
                if time.monotonic() > end:
                    raise TimeoutError("a job was not picked up within 30 s")
                time.sleep(0.005)  # not more often, so that polling does not disturb the measurement
            taken.append((float(content.split()[1]) - began) * 1000)
    return taken


def _until(connection: Connection[Any], question: str, params: Any = None) -> None:
    end = time.monotonic() + TIMEOUT
    while connection.execute(question, params).fetchone() != (True,):
        if time.monotonic() > end:
            raise TimeoutError(f"not within {TIMEOUT:.0f} s: {question}")
        time.sleep(0.05)

"""The load during a failover: sync and async producers, a client that waits for results, and real workers."""

import asyncio
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from chaos.failover_app import note, wait_and_return
from treadle import Retries, Treadle

ROOT = Path(__file__).parent.parent
TREADLE = str(Path(sys.executable).parent / "treadle")


def _job(rng: random.Random, n: int) -> tuple[dict[str, Any], dict[str, Any]]:
    data = {"n": n, "seconds": rng.choice([0.0, 0.0, 0.01, 0.3, rng.uniform(0, 2)])}
    key = f"key-{rng.randrange(20)}" if rng.random() < 0.1 else None
    return data, {"retry": Retries(0), "key": key}


class Load:
    def __init__(self, url: str, folder: Path, seed: int, rate: float) -> None:
        self._url = url
        self._folder = folder
        self._seed = seed
        self._rate = rate
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []
        self._processes: list[subprocess.Popen[bytes]] = []
        self._environment = os.environ | {"TREADLE_DATABASE_URL": url, "PYTHONPATH": str(ROOT)}

    def start(self, workers: int, producers: int) -> None:
        """Start everything. The first worker runs inside a program, the others are `treadle worker` commands."""
        worker = [TREADLE, "worker", "chaos.failover_app:app", "--processes", "1"]
        for number, command in enumerate([[sys.executable, "-m", "chaos.failover_app"], *[worker] * (workers - 1)]):
            with (self._folder / f"worker-{number}.log").open("wb") as log:
                self._processes.append(
                    subprocess.Popen(command, stdout=log, stderr=log, cwd=ROOT, env=self._environment)
                )
        for number in range(producers):
            self._start_thread(self._produce if number % 2 else self._produce_async, number)
        self._start_thread(self._wait_for_results, producers)

    def stop_producing(self) -> None:
        self._stopping.set()
        for each in self._threads:
            each.join(60)

    def close(self) -> None:
        self._stopping.set()
        for process in self._processes:
            with suppress(psutil.NoSuchProcess):
                supervisor = psutil.Process(process.pid)
                for each in [supervisor, *supervisor.children(recursive=True)]:
                    with suppress(psutil.NoSuchProcess):
                        each.send_signal(signal.SIGKILL)
            process.wait()

    def command(self, *words: str) -> tuple[int, float, str]:
        """Run a `treadle` command and return its exit code, its duration in seconds and its output."""
        began = time.monotonic()
        done = subprocess.run([TREADLE, *words], check=False, capture_output=True, env=self._environment, timeout=120)
        return done.returncode, time.monotonic() - began, (done.stdout + done.stderr).decode(errors="replace")

    def _start_thread(self, what: Callable[[int], None], number: int) -> None:
        thread = threading.Thread(target=what, args=[number], daemon=True)
        thread.start()
        self._threads.append(thread)

    def _produce(self, number: int) -> None:
        app, rng, n = Treadle(self._url), random.Random(f"{self._seed} {number}"), 0
        while not self._stopping.is_set():
            n += 1
            data, options = _job(rng, number * 1_000_000 + n)
            note("requested", n=data["n"])
            try:
                job_id = app.queue.enqueue(wait_and_return.name, data, **options)
            except Exception as error:
                note("unknown", n=data["n"], client=f"sync {number}", error=f"{type(error).__name__}: {error}"[:200])
                time.sleep(0.1)
            else:
                note("enqueued", n=data["n"], id=str(job_id), client=f"sync {number}")
            time.sleep(rng.expovariate(self._rate))
        app.close()

    def _produce_async(self, number: int) -> None:
        async def produce() -> None:
            app, rng, n = Treadle(self._url), random.Random(f"{self._seed} {number}"), 0
            while not self._stopping.is_set():
                n += 1
                data, options = _job(rng, number * 1_000_000 + n)
                note("requested", n=data["n"])
                try:
                    job_id = await app.queue.aenqueue(wait_and_return.name, data, **options)
                except Exception as error:
                    text = f"{type(error).__name__}: {error}"[:200]
                    note("unknown", n=data["n"], client=f"async {number}", error=text)
                    await asyncio.sleep(0.1)
                else:
                    note("enqueued", n=data["n"], id=str(job_id), client=f"async {number}")
                await asyncio.sleep(rng.expovariate(self._rate))
            await app.aclose()

        asyncio.run(produce())

    def _wait_for_results(self, number: int) -> None:
        """Enqueue a job and wait for its result, as a web request would."""
        app, n = Treadle(self._url), number * 1_000_000
        while not self._stopping.is_set():
            n += 1
            note("requested", n=n)
            try:
                job_id = app.queue.enqueue(wait_and_return.name, {"n": n, "seconds": 0.1}, retry=Retries(0))
                note("enqueued", n=n, id=str(job_id), client="waiting")
                app.handle(job_id).result(timeout=60)
                note("result", n=n, client="waiting")
            except Exception as error:
                note("unknown", n=n, client="waiting", error=f"{type(error).__name__}: {error}"[:200])
                time.sleep(0.1)
        app.close()

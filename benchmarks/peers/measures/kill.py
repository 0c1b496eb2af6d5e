"""Time from kill -9 of a worker and all of its processes, as if its machine were lost, until its jobs run again."""

import time
from typing import Any

from benchmarks.peers.bench import Bench
from benchmarks.peers.peer import Peer

# Treadle runs jobs whose process died in isolation, only as many at a time as there are cores.
JOBS = 2
SECONDS = 60.0


def measure(bench: Bench, peer: Peer, rate: float) -> dict[str, Any]:
    place = bench.fresh(peer)
    waits = 5.0 if bench.quick else SECONDS
    with peer.working(place, "hold", 1) as workers:
        peer.ask(place, "hold", JOBS)
        workers.wait(lambda: len(workers.held) >= JOBS, 30, f"{JOBS} held jobs are running")
        again_as = place | {"BENCH_PROCESSES": "1"}
        workers.start(workers.processes[0].args, again_as)  # type: ignore[arg-type] # the command that started it
        workers.await_ready()
        killed = workers.kill(0)
        end = time.monotonic() + waits
        again: list[float] = []
        while len(again) < JOBS and time.monotonic() < end:
            again = [at for nth, at in list(workers.held) if nth == 2 and at > killed]
            time.sleep(0.05)
    return {
        "jobs": JOBS,
        "again": len(again),
        "first": min(again) - killed if again else None,
        "seconds": max(again) - killed if len(again) >= JOBS else None,
        "waited": waits,
    }

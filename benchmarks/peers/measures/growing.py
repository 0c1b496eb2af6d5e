"""Five minutes of work without a pause, while the number of finished jobs grows: the first minute and the last.

Jobs are enqueued in bulk, ten seconds of work at a time, so that there is always a backlog and the producer competes
with the workers. What is counted are jobs that ran; at the end all of them must be finished.
"""

import time
from itertools import pairwise
from threading import Event, Thread
from typing import Any

from benchmarks.peers.bench import Bench
from benchmarks.peers.peer import Peer
from benchmarks.peers.workers import Workers

SECONDS = 300.0
AT_ONCE = 10.0  # seconds of work that are enqueued at once
BACKLOG = 0.5  # of that: with fewer jobs waiting, more are enqueued
INTERVAL = 10.0  # seconds between two points of the curve


def measure(bench: Bench, peer: Peer, rate: float) -> dict[str, Any]:
    seconds, interval, at_once = (6.0, 1.0, 1.0) if bench.quick else (SECONDS, INTERVAL, AT_ONCE)
    size = max(300, int(rate * at_once))
    place = bench.fresh(peer)
    enqueued = int(peer.ask(place, "bulk", size)["jobs"])
    with peer.watching(place) as watch, peer.working(place, "noop") as workers:
        workers.wait(lambda: workers.ran > 0, 60, "the first job ran")
        counts, over, began = [workers.ran], Event(), time.monotonic()
        counting = Thread(target=_count, args=(workers, counts, interval, round(seconds / interval), over))
        counting.start()
        try:
            while counting.is_alive():
                # The calibration may have been too low, and then the backlog would run out.
                size = max(size, int(workers.ran / (time.monotonic() - began + 1.0) * at_once))
                if enqueued - workers.ran < size * BACKLOG:
                    enqueued += int(peer.ask(place, "bulk", size)["jobs"])
                time.sleep(0.02)
        finally:
            over.set()
            counting.join()
        drained = bench.finish(watch, workers, enqueued)
    rates = [(after - before) / interval for before, after in pairwise(counts)]
    minute = max(1, round(len(rates) / 5))
    return {
        "jobs": drained.jobs,
        "interval": interval,
        "rates": rates,
        "first": sum(rates[:minute]) / minute,
        "last": sum(rates[-minute:]) / minute,
        "per_second": sum(rates) / len(rates),
    }


def _count(workers: Workers, counts: list[int], interval: float, times: int, over: Event) -> None:
    began = time.monotonic()
    for nth in range(1, times + 1):
        if over.wait(max(0.0, began + nth * interval - time.monotonic())):
            return
        counts.append(workers.ran)

"""Pick-up latency of jobs that are enqueued at a steady rate."""

import time
from contextlib import ExitStack
from dataclasses import dataclass

from benchmarks.peers.bench import Bench
from benchmarks.peers.peer import Peer

SECONDS = 60.0  # limit until the last job has run
START = 1.5  # seconds until a producer has started


@dataclass(frozen=True)
class Latency:
    latencies: list[float]
    rate: float


def latency(
    bench: Bench, peer: Peer, rate: float, seconds: float, kind: str = "stamp", large_rate: float = 0.0
) -> Latency:
    """`large_rate`: jobs per second with a large payload, which are enqueued at the same time."""
    place = bench.fresh(peer)
    with peer.working(place, kind) as workers:
        # The first jobs of a worker include the cost of connections, plans and imports, and are not counted. Those of a
        # producer are not timed: see pace().
        warm = int(peer.ask(place, "produce", 20, 0.5)["jobs"])
        workers.await_ran(warm, SECONDS)
        first = len(workers.latencies)
        with ExitStack() as stack:
            if large_rate:
                # It begins earlier and ends later than the jobs that are timed, because starting it takes a while.
                stack.enter_context(peer.asking(place, "produce", large_rate, seconds + 2 * START, "large"))
                time.sleep(START)
            answer = peer.ask(place, "produce", rate, seconds)
        workers.await_ran(warm + int(answer["jobs"]), SECONDS)
    return Latency(workers.latencies[first:], answer["jobs"] / answer["seconds"])

"""Pick-up latency of jobs that are enqueued at a steady rate."""

from dataclasses import dataclass

from benchmarks.peers.bench import Bench
from benchmarks.peers.peer import Peer

SECONDS = 60.0  # limit until the last job has run


@dataclass(frozen=True)
class Latency:
    latencies: list[float]
    rate: float


def latency(bench: Bench, peer: Peer, rate: float, seconds: float) -> Latency:
    place = bench.fresh(peer)
    with peer.working(place, "stamp") as workers:
        # The first jobs include the cost of connections, plans and imports, and are not counted.
        warm = int(peer.ask(place, "produce", 20, 0.5)["jobs"])
        workers.await_ran(warm, SECONDS)
        answer = peer.ask(place, "produce", rate, seconds)
        workers.await_ran(warm + int(answer["jobs"]), SECONDS)
        workers.wait(
            lambda: len(workers.latencies) >= workers.ran or not workers.latencies, 1, "all latencies were reported"
        )
    return Latency(workers.latencies[warm:], answer["jobs"] / answer["seconds"])

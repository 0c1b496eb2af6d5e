"""One job at a time, 100 a second: the processor time of a job, and its pick-up latency.

One producer with one connection, one worker process, and a server of its own. Counted are all processes of the server,
also its background processes and sessions that have ended; the worker with all processes that it started; and the
producer. Starting them, and the first second of work, is not counted.
"""

from typing import Any

from benchmarks.peers.bench import Bench
from benchmarks.peers.figures import quantiles
from benchmarks.peers.measures.latency import SECONDS as LIMIT
from benchmarks.peers.peer import Peer
from benchmarks.processor import cpu_seconds

RATE = 100.0
SECONDS, QUICK = 20.0, 3.0
FIRST = 1.0  # second, of which the producer times no job
LAST = 0.3  # seconds, because the producer ends


def measure(bench: Bench, peer: Peer, rate: float) -> dict[str, Any]:
    seconds = QUICK if bench.quick else SECONDS
    with bench.apart(peer) as own:
        place = own.fresh(peer) | {"BENCH_PRODUCERS": "1"}
        with peer.working(place, "stamp", 1) as workers:
            # The first jobs of a worker include the cost of connections, plans and imports.
            warm = int(peer.ask(place, "produce", 20, 0.5)["jobs"])
            workers.await_ran(warm, LIMIT)
            first = len(workers.latencies)
            with peer.asking(place, "produce", RATE, seconds) as producer:

                def used_after(seconds: float) -> tuple[int, dict[str, float]]:
                    workers.await_ran(warm + round(RATE * seconds), LIMIT)
                    pids = {
                        "server": [own.server(peer)],
                        "worker": [process.pid for process in workers.processes],
                        "producer": [producer.pid],
                    }
                    return workers.ran, {name: cpu_seconds(each) for name, each in pids.items()}

                ran_before, before = used_after(FIRST)
                ran, after = used_after(FIRST + seconds - LAST)
            workers.await_ran(warm + int(producer.answer["jobs"]), LIMIT)
    used = {name: (after[name] - before[name]) / (ran - ran_before) * 1000 for name in after}
    return {
        "jobs": ran - ran_before,
        "rate": producer.answer["jobs"] / producer.answer["seconds"],
        "cpu_ms": used | {"all": sum(used.values())},
        **quantiles(workers.latencies[first:]),
    }

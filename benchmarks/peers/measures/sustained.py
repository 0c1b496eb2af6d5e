"""Producer and workers together: from the first enqueue of a bulk until its last job is finished, workers waiting."""

import time
from typing import Any

from benchmarks.peers.bench import Bench
from benchmarks.peers.peer import Peer


def measure(bench: Bench, peer: Peer, rate: float) -> dict[str, Any]:
    jobs = bench.size(rate)
    place = bench.fresh(peer)
    with peer.watching(place) as watch, peer.working(place, "noop") as workers:
        with peer.asking(place, "bulk", jobs) as asking:
            pass
        # The adapter connects before it enqueues. It reports when the enqueue began, or at least how long it took.
        began = asking.answer.get("began", time.monotonic() - asking.answer["seconds"])
        began = min(began, workers.first or began)
        drained = bench.finish(watch, workers, jobs, began)
    return {"jobs": jobs, "per_second": drained.rate}

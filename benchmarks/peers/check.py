"""Tests one adapter with a few jobs, using every command of the protocol.

python -m benchmarks.peers.check NAME [--jobs 1000]

It checks that the number of jobs left after the enqueue and the number of runs equal the number enqueued, and that no
job is left at the end. The rates that it prints are estimates, better ones with more --jobs; for the figures, use
python -m benchmarks.peers.
"""

import argparse
import signal
import sys
import time
from contextlib import ExitStack
from typing import Any

from benchmarks.peers import install
from benchmarks.peers.bench import Bench
from benchmarks.peers.peer import Peer, Place
from benchmarks.peers.servers import postgres, redis

FIELDS = {"name", "version", "language", "store", "history", "settings", "processes", "recovery"}
OPTIONAL = {"supervises", "eight_processes", "lease"}
HELD = 3


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("name", choices=install.names())
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument(
        "--processes", type=int, default=None, help="worker processes for the drains; default: the adapter's setting"
    )
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # so that the servers are stopped as well
    peer = Peer(options.name, install.environment(options.name))
    peer.about = peer.ask({}, "about")
    equal("fields of about", set(peer.about) - OPTIONAL, FIELDS)
    show("about", **peer.about)
    if options.processes:
        peer.about["processes"] = options.processes
    with ExitStack() as stack:
        server = stack.enter_context(postgres())
        broker = stack.enter_context(redis()) if peer.store == "redis" else None
        bench = Bench(server, broker, seconds=1, most=options.jobs, quick=True)
        for name in ("noop", "ten", "wait5"):
            drain(bench, peer, name, options.jobs)
        drain(bench, peer, "ten", options.jobs, processes=8)
        single(bench, peer)
        produce(bench, peer)
        large(bench, peer)
        hold(bench, peer)
        if peer.store == "postgresql" and peer.about["history"]:
            finished(bench, peer, options.jobs)
    print(f"{options.name}: all checks passed")


def drain(bench: Bench, peer: Peer, name: str, jobs: int, processes: int | None = None) -> None:
    place = bench.fresh(peer)
    equal("left in an empty database", left(peer, place), 0)
    if processes:
        show(
            f"{name}, {processes} processes", drain=round(bench.drain_together(peer, place, jobs, name, processes).rate)
        )
        equal("left", left(peer, place), 0)
        return
    enqueued = peer.ask(place, "bulk", jobs, name)
    equal("jobs of bulk", enqueued["jobs"], jobs)
    equal("left after bulk", left(peer, place), jobs)
    began = time.monotonic()
    with peer.watching(place) as watch, peer.working(place, name) as workers:
        drained = bench.finish(watch, workers, jobs)
        ended = time.monotonic()
    if not began < workers.first <= workers.last < ended:
        raise SystemExit(
            f"jobs ran from {workers.first} to {workers.last}, outside of {began} to {ended}: the clocks differ"
        )
    equal("ran", workers.ran, jobs)
    equal("left", left(peer, place), 0)
    show(name, bulk=round(jobs / enqueued["seconds"]), drain=round(drained.rate), megabytes=round(drained.memory_mb))


def single(bench: Bench, peer: Peer) -> None:
    for clients in (1, 48):
        place = bench.fresh(peer)
        answer = peer.ask(place, "single", 1, clients)
        equal("left after single", left(peer, place), answer["made"])
        drained = bench.drain(peer, place, int(answer["made"]))
        show(f"single from {clients}", rate=round(answer["jobs"] / answer["seconds"]), then_drained=round(drained.rate))


def produce(bench: Bench, peer: Peer) -> None:
    place = bench.fresh(peer)
    with peer.working(place, "stamp") as workers:
        answer = peer.ask(place, "produce", 50, 2)
        equal("jobs of produce", answer["jobs"], 100)
        workers.await_ran(100, 30)
        wait_until_none_left(peer, place)
    equal("latencies", len(workers.latencies), 100)
    found = sorted(workers.latencies)
    if found[0] < 0:
        raise SystemExit(f"a job ran {-found[0]} ms before it was enqueued: the clocks differ")
    show("produce", rate=round(answer["jobs"] / answer["seconds"]), p50_ms=found[50], p99_ms=found[98])


def large(bench: Bench, peer: Peer) -> None:
    place = bench.fresh(peer)
    peer.ask(place, "produce", 10, 1, "large")
    equal("left after produce", left(peer, place), 10)
    with peer.working(place, "mixed") as workers:
        peer.ask(place, "produce", 10, 1, "stamp")
        workers.await_ran(10, 30)
        wait_until_none_left(peer, place)
    equal("ran, without the large ones", workers.ran, 10)
    show("large", p99_ms=max(workers.latencies))


def hold(bench: Bench, peer: Peer) -> None:
    place = bench.fresh(peer)
    with peer.working(place, "hold", 1) as workers:
        peer.ask(place, "hold", HELD)
        workers.wait(lambda: len(workers.held) == HELD, 30, "the held jobs are running")
        equal("left while the held jobs are running", left(peer, place), HELD)
        workers.kill(0)
    equal("left after the worker was killed", left(peer, place), HELD)
    show("hold", jobs=HELD)


def finished(bench: Bench, peer: Peer, jobs: int) -> None:
    place = bench.fresh(peer)
    peer.ask(place, "finished", jobs)
    equal("left with only finished jobs", left(peer, place), 0)
    peer.ask(place, "bulk", 100)
    bench.drain(peer, place, 100)
    show("finished", jobs=jobs)


def left(peer: Peer, place: Place) -> int:
    return int(peer.ask(place, "left")["left"])


def wait_until_none_left(peer: Peer, place: Place) -> None:
    end = time.monotonic() + 10  # many queues record the completion after the job, some in batches
    while left(peer, place) and time.monotonic() < end:
        time.sleep(0.2)
    equal("left", left(peer, place), 0)


def equal(what: str, found: Any, wanted: Any) -> None:
    if found != wanted:
        raise SystemExit(f"{what}: expected {wanted}, got {found}")


def show(what: str, **fields: Any) -> None:
    print(f"{what}: " + ", ".join(f"{name} {value}" for name, value in fields.items()), flush=True)


if __name__ == "__main__":
    main()

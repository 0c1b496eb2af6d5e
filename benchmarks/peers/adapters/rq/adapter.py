"""RQ on Redis (python-rq.org/docs): SimpleWorker, which runs jobs in its own process ("Performance notes" on its page
about workers), results not kept, `enqueue_many` for many jobs.

A worker runs one job at a time, with about 27 round trips to Redis, so several workers are faster: the command forks
them like rq's worker-pool.

A job is moved to a list and then to the registry of started jobs, so a crash loses no job, and with `retry` it runs
again: after its heartbeat expired, which for SimpleWorker is the job's timeout + 60 s, and the registries were cleaned,
here every 10 s instead of every 10 minutes.
"""

import logging
import os
import signal
import sys
import time
from pathlib import Path

import redis
import rq
from rq import Queue, Retry, SimpleWorker
from rq.registry import StartedJobRegistry

sys.path.insert(0, str(Path(__file__).parent.parent))
import peer

URL = os.environ.get("BENCH_REDIS", "redis://")
BATCH = 1000  # jobs per call of enqueue_many
WORKERS = {"noop": 2, "ten": 2, "stamp": 2, "mixed": 2, "wait5": 8, "hold": 8}
OPTIONS = {"result_ttl": 0, "retry": Retry(max=3), "description": ""}


def about() -> dict:
    return {
        "name": "rq",
        "version": rq.VERSION,
        "language": "Python",
        "store": "redis",
        "history": False,
        "settings": [
            "SimpleWorker, no fork per job; result_ttl 0, retry 3",
            "a worker runs one job at a time: 4 workers for no-op jobs, 16 for jobs that wait",
            "enqueue_many with 1,000 jobs per call; hiredis",
        ],
        "processes": 2,
        "eight_processes": "8 commands that fork two workers each, because a worker runs one job at a time",
        "recovery": "the job's timeout (180 s by default, must be longer than the longest job) + 60 s",
    }


def queue() -> Queue:
    connection = redis.Redis.from_url(URL)
    connection.ping()
    return Queue(connection=connection)


def setup() -> None:
    pass


def bulk(jobs: int, name: str) -> dict:
    into = queue()
    began = time.monotonic()
    for job_type, numbers in peer.batches(name, jobs, BATCH):
        into.enqueue_many([Queue.prepare_data(f"adapter.{job_type}", kwargs={"n": n}, **OPTIONS) for n in numbers])
    return peer.timed(jobs, began)


def single(seconds: float, clients: int, name: str) -> dict:
    free = [queue() for _ in range(clients)]

    def call(n: int) -> None:
        into = free.pop()
        into.enqueue_call(f"adapter.{name}", kwargs={"n": n}, **OPTIONS)
        free.append(into)

    return peer.repeat_on_threads(seconds, clients, call)


def produce(rate: float, seconds: float, name: str) -> dict:
    free = [queue() for _ in range(peer.PRODUCERS)]

    def call(at: float) -> None:
        into = free.pop()
        into.enqueue_call(f"adapter.{name}", kwargs=peer.payload_of(name, at), **OPTIONS)
        free.append(into)

    return peer.pace_on_threads(rate, seconds, call)


def noop(n: int) -> None:
    peer.ran.one()


for nth in range(10):
    globals()[f"noop{nth}"] = noop


def wait5(n: int) -> None:
    time.sleep(0.005)
    peer.ran.one()


def stamp(at: float) -> None:
    peer.ran.stamp(at)


def large(data: str) -> None:
    peer.ran.large(data)


def holding(n: int) -> None:
    peer.ran.held(n)
    time.sleep(600)


def hold(jobs: int) -> None:
    into = queue()
    for n in range(jobs):
        into.enqueue_call("adapter.holding", kwargs={"n": n}, timeout=700, **OPTIONS)


def run() -> None:
    logging.disable()
    one = SimpleWorker([queue()], connection=queue().connection, maintenance_interval=10, log_job_description=False)
    one.work(logging_level="CRITICAL")


def work(kind: str, concurrency: int) -> None:
    if WORKERS[kind] == 1:
        peer.ready()
        run()
        return
    children = []
    for _ in range(WORKERS[kind]):
        child = os.fork()
        if not child:
            try:
                run()
                peer.ran.end()
            finally:
                os._exit(0)
        children.append(child)
    signal.signal(signal.SIGTERM, lambda *_: [os.kill(child, signal.SIGTERM) for child in children])
    peer.ready()
    for child in children:
        os.waitpid(child, 0)


def left() -> int:
    into = queue()
    started = StartedJobRegistry(queue=into)
    moving = into.connection.llen(into.intermediate_queue_key)
    return into.count + started.get_job_count(cleanup=False) + moving


if __name__ == "__main__":
    peer.main(sys.modules[__name__])

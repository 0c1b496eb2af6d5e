"""dramatiq on Redis (dramatiq.io): threads in each process, a large prefetch (`dramatiq_queue_prefetch`, in "Advanced
Topics"), and only the Retries middleware, which requeues failed jobs.

A worker that found no job waits for up to `worker_timeout` before it polls again, 1 s by default; here 5 ms. There is
no call that enqueues many jobs: a group sends them one by one as well; here 4 threads do.

A message is acknowledged after its job ran, so a crash loses no job: other workers take the messages of a process
without a heartbeat (60 s by default, here 5 s) at the next maintenance, which runs with 1 % of the commands here, and
with 0.1 % by default.
"""

import logging
import os
import signal
import sys
import threading
import time
from pathlib import Path

KIND = sys.argv[2] if sys.argv[1:2] == ["work"] else ""
os.environ["dramatiq_queue_prefetch"] = "16" if KIND == "hold" else "1000"  # noqa: SIM112 # so it is spelled

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.middleware import Retries

sys.path.insert(0, str(Path(__file__).parent.parent))
import peer

URL = os.environ.get("BENCH_REDIS", "redis://")
ENQUEUERS = 4
THREADS = {"noop": 8, "ten": 8, "stamp": 8, "mixed": 8, "wait5": 48, "hold": 16}

broker = RedisBroker(url=URL, middleware=[Retries()], heartbeat_timeout=5000, maintenance_chance=10_000)
dramatiq.set_broker(broker)


def about() -> dict:
    return {
        "name": "dramatiq",
        "version": dramatiq.__version__,
        "language": "Python",
        "store": "redis",
        "history": False,
        "settings": [
            "threads per process: 8, the default, and 48 for jobs that wait",
            "queue prefetch 1,000, worker_timeout 5 ms, only the Retries middleware",
            "heartbeat_timeout 5 s, maintenance_chance 1%",
            "bulk: 4 threads, one message per call, there is no bulk call; hiredis",
        ],
        "processes": 2,
        "lease": 5,
        "recovery": "heartbeat_timeout 5 s, then the next maintenance run",
    }


@dramatiq.actor
def noop(n: int) -> None:
    peer.ran.one()


@dramatiq.actor
def wait5(n: int) -> None:
    time.sleep(0.005)
    peer.ran.one()


@dramatiq.actor
def stamp(at: float) -> None:
    peer.ran.stamp(at)


@dramatiq.actor
def large(data: str) -> None:
    peer.ran.large(data)


@dramatiq.actor
def holding(n: int) -> None:
    peer.ran.held(n)
    time.sleep(600)


ACTORS = {"noop": noop, "wait5": wait5, "stamp": stamp, "large": large}
ACTORS |= {name: dramatiq.actor(noop.fn, actor_name=name) for name in peer.TEN}


def setup() -> None:
    pass


def bulk(jobs: int, name: str) -> dict:
    broker.client.ping()
    numbers, turn = iter(range(jobs)), threading.Lock()

    def enqueuer() -> None:
        while True:
            with turn:
                n = next(numbers, None)
            if n is None:
                return
            ACTORS[peer.type_of(name, n)].send(n=n)

    threads = [threading.Thread(target=enqueuer) for _ in range(ENQUEUERS)]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return peer.timed(jobs, began)


def single(seconds: float, clients: int, name: str) -> dict:
    broker.client.ping()
    return peer.repeat_on_threads(seconds, clients, lambda n: ACTORS[name].send(n=n))


def produce(rate: float, seconds: float, name: str) -> dict:
    broker.client.ping()
    return peer.pace_on_threads(rate, seconds, lambda at: ACTORS[name].send(**peer.payload_of(name, at)))


def hold(jobs: int) -> None:
    for n in range(jobs):
        holding.send(n=n)


def work(kind: str, concurrency: int) -> None:
    logging.disable()
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    worker = dramatiq.Worker(broker, worker_threads=THREADS[kind], worker_timeout=5)
    worker.start()
    peer.ready()
    stop.wait()
    worker.stop(timeout=3000)


def left() -> int:
    return int(broker.do_qsize("default"))


if __name__ == "__main__":
    peer.main(sys.modules[__name__])

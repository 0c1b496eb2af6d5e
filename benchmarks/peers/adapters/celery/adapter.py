"""Celery on Redis (docs.celeryq.dev: "Optimizing", "Using Redis", "Workers Guide"): late acknowledgement, a large
prefetch for short tasks, no results, no events, no rate limits, no gossip, no mingle. The pool depends on the job: solo
for no-op jobs, so that no job passes through a pipe to a child process; threads for jobs that wait. Many jobs are
enqueued by one producer in kombu's `batch()`, a pipeline of 1,000; a group would send them one by one.

With early acknowledgement, the default, a crash loses the jobs of a worker. With `task_acks_late` they are delivered
again `visibility_timeout` after they were taken, 1 hour by default. The timeout must be longer than the longest job;
otherwise that job runs twice.
"""

import contextlib
import logging
import os
import sys
import time
from pathlib import Path

import celery
import redis
from celery import Celery, signals

sys.path.insert(0, str(Path(__file__).parent.parent))
import peer

URL = os.environ.get("BENCH_REDIS", "redis://")
QUEUE = "celery"
POOLS = dict.fromkeys(["noop", "ten", "stamp", "mixed"], ("solo", 1))
POOLS |= dict.fromkeys(["wait5", "hold"], ("threads", 100))
PREFETCH = {"noop": 1000, "ten": 1000, "stamp": 100, "mixed": 100, "wait5": 4, "hold": 1}  # per slot of the pool

app = Celery("adapter", broker=URL, set_as_current=True)
app.conf.update(
    task_ignore_result=True,
    task_acks_late=True,
    worker_disable_rate_limits=True,
    worker_send_task_events=False,
    worker_redirect_stdouts=False,
    worker_hijack_root_logger=False,
    broker_pool_limit=64,
    broker_connection_retry_on_startup=True,
    task_default_queue=QUEUE,
)


def about() -> dict:
    return {
        "name": "celery",
        "version": celery.__version__,
        "language": "Python",
        "store": "redis",
        "history": False,
        "settings": [
            "task_acks_late, so that a crash loses no job; visibility_timeout 1 h, the default",
            "task_ignore_result, no events, rate limits, gossip, mingle or heartbeat",
            "pool solo with prefetch 1,000 for no-op jobs, 100 threads with prefetch 400 for jobs that wait",
            "bulk: one producer in kombu's batch() of 1,000; hiredis",
        ],
        "processes": 2,
        "recovery": "visibility_timeout (1 h by default, must be longer than the longest job)",
    }


@app.task(name="noop")
def noop(n: int) -> None:
    peer.ran.one()


@app.task(name="wait5")
def wait5(n: int) -> None:
    time.sleep(0.005)
    peer.ran.one()


@app.task(name="stamp")
def stamp(at: float) -> None:
    peer.ran.stamp(at)


@app.task(name="large")
def large(data: str) -> None:
    peer.ran.large(data)


@app.task(name="hold")
def holding(n: int) -> None:
    peer.ran.held(n)
    time.sleep(600)


TASKS = {"noop": noop, "wait5": wait5, "stamp": stamp, "large": large}
TASKS |= {name: app.task(noop.run, name=name) for name in peer.TEN}


def setup() -> None:
    pass


def bulk(jobs: int, name: str) -> dict:
    with app.producer_pool.acquire(block=True) as producer:
        producer.connection.ensure_connection()
        began = time.monotonic()
        with producer.batch():
            for n in range(jobs):
                TASKS[peer.type_of(name, n)].apply_async(kwargs={"n": n}, producer=producer, retry=False)
        return peer.timed(jobs, began)


def warm(clients: int) -> None:
    producers = [app.producer_pool.acquire(block=True) for _ in range(clients)]
    for producer in producers:
        producer.channel.client.ping()
        producer.release()


def single(seconds: float, clients: int, name: str) -> dict:
    task = TASKS[name]
    warm(clients)
    return peer.repeat_on_threads(seconds, clients, lambda n: task.apply_async(kwargs={"n": n}))


def produce(rate: float, seconds: float, name: str) -> dict:
    warm(peer.PRODUCERS)
    return peer.pace_on_threads(rate, seconds, lambda at: TASKS[name].apply_async(kwargs=peer.payload_of(name, at)))


def hold(jobs: int) -> None:
    for n in range(jobs):
        holding.apply_async(kwargs={"n": n})


def work(kind: str, concurrency: int) -> None:
    pool, places = POOLS[kind]
    logging.disable()
    signals.worker_ready.connect(lambda **_: peer.ready(), weak=False)
    worker = app.Worker(
        pool=pool,
        concurrency=places,
        prefetch_multiplier=PREFETCH[kind],
        without_gossip=True,
        without_mingle=True,
        without_heartbeat=True,
        task_events=False,
        quiet=True,
        loglevel="CRITICAL",
    )
    with contextlib.suppress(SystemExit):
        worker.start()


def left() -> int:
    with redis.Redis.from_url(URL) as client:
        return int(client.llen(QUEUE)) + int(client.hlen("unacked"))


if __name__ == "__main__":
    peer.main(sys.modules[__name__])

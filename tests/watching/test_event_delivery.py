"""50 jobs publish 20,000 events, listeners are killed and resumed at random, and some commits are late: every listener
receives every event once, and the events of a job in order."""

import asyncio
import itertools
import random
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from psycopg import Connection

from tests.conftest import Connect
from tests.support.workers import ROOT, auntil, one, run, until
from treadle import Job, JobQueue, Treadle
from treadle.worker.worker import Worker

pytestmark = pytest.mark.own_database

JOBS, EVENTS, LATE = 40, 200, 20


class Listener:
    """A process that follows all events and can be killed and restarted."""

    def __init__(self, url: str, file: Path) -> None:
        self._url = url
        self.file = file
        self.kills = 0
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "tests.support.listener", self._url, str(self.file)]
        self._process = subprocess.Popen(command, cwd=ROOT)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self.kills += 1

    def has_received(self, number: int) -> bool:
        return len(self.received()) >= number

    def received(self) -> list[tuple[UUID, int]]:
        lines = self.file.read_text().splitlines() if self.file.exists() else []
        return [(UUID(line.split()[1]), int(line.split()[2])) for line in lines]


@pytest.fixture
def listeners(url: str, tmp_path: Path) -> Iterator[list[Listener]]:
    listeners = [Listener(url, tmp_path / f"listener-{n}") for n in range(2)]
    yield listeners
    for listener in listeners:
        listener.kill()


def late_commits(connect: Connect, jobs: list[UUID], stop: threading.Event, chance: random.Random) -> None:
    """Publish events whose transactions stay open while thousands of others commit."""
    open_transactions: list[Connection[Any]] = []
    for job_id in jobs:
        connection = connect(autocommit=False)
        connection.execute("select record_event(%s, 'late')", [job_id])
        open_transactions.append(connection)
        stop.wait(chance.uniform(0, 0.2))
        if len(open_transactions) > 3:
            open_transactions.pop(0).commit()
    for connection in open_transactions:
        connection.commit()


def out_of_order(received: list[tuple[UUID, int]]) -> Iterator[str]:
    """Describe each job whose events are not in order."""
    by_job: dict[UUID, list[int]] = defaultdict(list)
    for job_id, number in received:
        by_job[job_id].append(number)
    for job_id, numbers in by_job.items():
        if numbers != list(range(1, len(numbers) + 1)):
            yield f"{job_id}: {numbers[:20]}…"


def test_every_listener_receives_every_event_once(
    app: Treadle, queue: JobQueue, listeners: list[Listener], connect: Connect, connection: Connection[Any]
) -> None:
    chance = random.Random(7)

    @app.job
    async def publish_events(job: Job) -> None:
        for n in range(EVENTS):
            job.event("said", n=n)
            if n % 10 == 0:
                await asyncio.sleep(chance.uniform(0, 0.1))

    received_by_job: dict[UUID, list[tuple[UUID, int]]] = defaultdict(list)

    async def follow(job_id: UUID, after: list[str]) -> None:
        async for event in app.handle(job_id).events(after=after[-1] if after else None):
            after.append(event.cursor)
            if event.number:
                received_by_job[job_id].append((job_id, event.number))

    async def follow_with_interruptions(job_id: UUID) -> int:
        """Follow one job, interrupted at random; return the number of interruptions."""
        after: list[str] = []
        interruptions = 0
        while True:
            listening = asyncio.create_task(follow(job_id, after))
            done, _ = await asyncio.wait([listening], timeout=chance.uniform(0.05, 0.6))
            if done:
                await listening
                return interruptions
            listening.cancel()
            await asyncio.wait([listening])
            interruptions += 1

    overtaken = [queue.enqueue("elsewhere") for _ in range(LATE)]

    async def kill_listeners(over: asyncio.Event) -> None:
        for listener in itertools.cycle(listeners):
            if over.is_set() and all(each.kills for each in listeners):
                return
            await asyncio.sleep(chance.uniform(0.3, 1.0))
            await asyncio.to_thread(listener.kill)
            listener.start()

    async def body(_: Worker) -> int:
        over, stop = asyncio.Event(), threading.Event()
        # If they were killed from the start, they would never begin to listen on a busy machine.
        await auntil(lambda: any(listener.file.exists() for listener in listeners))
        killing = asyncio.create_task(kill_listeners(over))
        late = asyncio.create_task(asyncio.to_thread(late_commits, connect, overtaken, stop, chance))
        handles = await publish_events.aenqueue_many({} for _ in range(JOBS))
        interruptions = await asyncio.gather(*(follow_with_interruptions(handle.id) for handle in handles[:10]))
        for handle in handles:
            await handle.aresult(60)
        over.set()
        await killing
        await late
        return sum(interruptions)

    interruptions = run(app, body, concurrency=JOBS)
    total = JOBS * EVENTS + LATE
    assert one(connection, "select count(*) from events") == total
    for listener in listeners:
        until(partial(listener.has_received, total), seconds=60)
        received = listener.received()
        assert listener.kills > 0
        assert len(received) == len(set(received)) == total
        assert list(out_of_order(received)) == []
    assert interruptions > 10
    for numbers in received_by_job.values():
        assert len(numbers) == EVENTS
        assert list(out_of_order(numbers)) == []

"""20,000 events from 50 jobs at once, listeners killed and resumed at random, late commits: every listener sees every
event once, in order per job."""

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
from treadle.worker import Worker

pytestmark = pytest.mark.own_database

JOBS, EVENTS, LATE = 50, 400, 20


class Listener:
    """A listening process, killed now and then."""

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

    def has_seen(self, number: int) -> bool:
        return len(self.seen()) >= number

    def seen(self) -> list[tuple[UUID, int]]:
        lines = self.file.read_text().splitlines() if self.file.exists() else []
        return [(UUID(line.split()[1]), int(line.split()[2])) for line in lines]


@pytest.fixture
def listeners(url: str, tmp_path: Path) -> Iterator[list[Listener]]:
    listeners = [Listener(url, tmp_path / f"listener-{n}") for n in range(2)]
    yield listeners
    for listener in listeners:
        listener.kill()


def late_commits(connect: Connect, jobs: list[UUID], stop: threading.Event, chance: random.Random) -> None:
    """Events whose transactions stay open for a while, and are overtaken by thousands of others."""
    held: list[Connection[Any]] = []
    for job_id in jobs:
        connection = connect(autocommit=False)
        connection.execute("select record_event(%s, 'late')", [job_id])
        held.append(connection)
        stop.wait(chance.uniform(0, 0.2))
        if len(held) > 3:
            held.pop(0).commit()
    for connection in held:
        connection.commit()


def in_order(seen: list[tuple[UUID, int]]) -> Iterator[str]:
    """What is wrong with what a listener saw."""
    by_job: dict[UUID, list[int]] = defaultdict(list)
    for job_id, number in seen:
        by_job[job_id].append(number)
    for job_id, numbers in by_job.items():
        if numbers != list(range(1, len(numbers) + 1)):
            yield f"{job_id}: {numbers[:20]}…"


def test_every_listener_sees_every_event_once(
    app: Treadle, queue: JobQueue, listeners: list[Listener], connect: Connect, connection: Connection[Any]
) -> None:
    chance = random.Random(7)

    @app.job
    async def talk(job: Job) -> None:
        for n in range(EVENTS):
            job.event("said", n=n)
            if n % 10 == 0:
                await asyncio.sleep(chance.uniform(0, 0.1))

    heard: dict[UUID, list[tuple[UUID, int]]] = defaultdict(list)

    async def follow(job_id: UUID, after: list[str]) -> None:
        async for event in app.handle(job_id).events(after=after[-1] if after else None):
            after.append(event.cursor)
            if event.number:
                heard[job_id].append((job_id, event.number))

    async def resumed(job_id: UUID) -> int:
        """A listener to one job that is cut off at random."""
        after: list[str] = []
        cuts = 0
        while True:
            listening = asyncio.create_task(follow(job_id, after))
            done, _ = await asyncio.wait([listening], timeout=chance.uniform(0.05, 0.6))
            if done:
                await listening
                return cuts
            listening.cancel()
            await asyncio.wait([listening])
            cuts += 1

    overtaken = [queue.enqueue("elsewhere") for _ in range(LATE)]

    async def kill_them(over: asyncio.Event) -> None:
        for listener in itertools.cycle(listeners):
            if over.is_set() and all(each.kills for each in listeners):
                return
            await asyncio.sleep(chance.uniform(0.3, 1.0))
            await asyncio.to_thread(listener.kill)
            listener.start()

    async def body(_: Worker) -> int:
        over, stop = asyncio.Event(), threading.Event()
        # Killed from the start, on a busy machine they would never come to listen.
        await auntil(lambda: any(listener.file.exists() for listener in listeners))
        killing = asyncio.create_task(kill_them(over))
        late = asyncio.create_task(asyncio.to_thread(late_commits, connect, overtaken, stop, chance))
        handles = await talk.aenqueue_many({} for _ in range(JOBS))
        cuts = await asyncio.gather(*(resumed(handle.id) for handle in handles[:10]))
        for handle in handles:
            await handle.aresult(60)
        over.set()
        await killing
        await late
        return sum(cuts)

    cuts = run(app, body, concurrency=JOBS)
    total = JOBS * EVENTS + LATE
    assert one(connection, "select count(*) from events") == total
    for listener in listeners:
        until(partial(listener.has_seen, total), seconds=60)
        seen = listener.seen()
        assert listener.kills > 0
        assert len(seen) == len(set(seen)) == total
        assert list(in_order(seen)) == []
    assert cuts > 10
    for numbers in heard.values():
        assert len(numbers) == EVENTS
        assert list(in_order(numbers)) == []

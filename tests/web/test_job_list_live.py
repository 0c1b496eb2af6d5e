"""The streams of open lists of jobs: what they send, and what they cost the database."""

import asyncio
import re
from contextlib import AsyncExitStack, aclosing
from typing import Any
from uuid import UUID

import httpx
from psycopg import Connection

from tests.support.buffers import buffers
from tests.support.web import Server, messages
from treadle import JobQueue, Retries, Treadle
from treadle.db.queries.listing import find_jobs, find_jobs_by_id
from treadle.web.dashboard.pages.live.job_list import LiveLists, OpenList
from treadle.web.dashboard.pages.live.readings import Readings
from treadle.web.dashboard.security.access import Role
from treadle.words.listing import JobFilter, Listing


def test_a_list_is_read_once_for_all_who_have_the_same_filter(app: Treadle, queue: JobQueue) -> None:
    ids = frozenset(queue.enqueue_many("films", [{}] * 5))
    lists = 0

    async def body() -> None:
        live, kind = LiveLists(app, Readings()), ("", Role.VIEWER)

        async def find() -> Listing:
            nonlocal lists
            lists += 1
            return await app.database.aread(find_jobs(JobFilter(), None, 50))

        async with AsyncExitStack() as stack:
            pages = [live.frames(("all",), find, ids, kind) for _ in range(50)]
            for each in pages:
                await stack.enter_async_context(aclosing(each))
            first = await asyncio.gather(*map(anext, pages))
            assert len(set(first)) == 1
            assert first[0].count(b'<tr id=\\"row-') == 5
        assert not live._open
        await app.database.aclose()

    asyncio.run(body())
    assert lists <= 2


def test_a_slow_list_is_read_less_often(app: Treadle) -> None:
    lists = reads = 0

    async def find() -> Listing:
        nonlocal lists
        lists += 1
        await asyncio.sleep(0.1)
        return Listing([], None)

    async def body() -> None:
        nonlocal reads
        opened = OpenList(app, find)
        for _ in range(10):
            await opened.read()
            reads += 1

    asyncio.run(body())
    assert (lists, reads) == (1, 10)


def test_the_rows_are_read_by_id_alone(connection: Connection[Any], queue: JobQueue) -> None:
    ids = list(queue.enqueue_many("films", [{}] * 50))
    query = find_jobs_by_id(ids)
    few = buffers(connection, query.text.replace("treadle.", ""), query.params, rows=50)
    queue.enqueue_many("films", [{}] * 20_000)
    connection.execute("analyze jobs")
    assert buffers(connection, query.text.replace("treadle.", ""), query.params, rows=50) <= few + 100


def test_the_stream_refuses_what_is_not_a_list(dashboard: Server) -> None:
    for path in ("/live/jobs?shown=x", "/live/jobs?status=nonsense&where=x"):
        assert httpx.get(dashboard.url + path, timeout=60).status_code == 400


def test_errors_in_rows_are_masked(dashboard: Server, queue: JobQueue) -> None:
    job: UUID = queue.enqueue("films", retry=Retries(0))
    queue.fail(queue.claim(["films"])[0], "password=xyzzy <b>")
    with httpx.stream("GET", f"{dashboard.url}/live/jobs?shown={job.hex}", timeout=60) as response:
        row = next(messages(response)).data["rows"][str(job)]
    assert "xyzzy" not in row
    assert re.search("&lt;b&gt;", row)

"""What open pages show is read once for all that show the same, and at once when something is wrong."""

import asyncio
from contextlib import AsyncExitStack, aclosing

import pytest

from tests.support.web import first
from tests.support.workers import auntil
from treadle import Treadle
from treadle.db import screen_limits
from treadle.db.screen_limits import current
from treadle.web.dashboard.pages.live import readings, shared
from treadle.web.dashboard.pages.live.readings import Reading, Readings, Unavailable, summary_of
from treadle.web.dashboard.pages.live.shared import SharedReads
from treadle.words.errors import TableLocked


def test_a_hundred_pages_that_show_the_same_are_read_and_rendered_once() -> None:
    read = rendered = 0

    async def value() -> int:
        nonlocal read
        read += 1
        return read

    def render(number: int) -> str:
        nonlocal rendered
        rendered += 1
        return f"{number}"

    async def body() -> None:
        shared = Readings()
        async with AsyncExitStack() as stack:
            pages = [shared.follow(("list", n % 2), value, 0.05) for n in range(100)]
            updates = await asyncio.gather(*(first(stack, each) for each in pages))
            assert read <= 4
            texts = {each.rendered("viewer", render) for each in updates if isinstance(each, Reading)}
            assert rendered == len(texts) <= 2
        assert not shared.topics

    asyncio.run(body())


def test_a_state_that_takes_long_to_read_is_read_less_often(app: Treadle, monkeypatch: pytest.MonkeyPatch) -> None:
    async def body() -> list[float]:
        reads = SharedReads(app, Readings())
        found = [reads.seconds()]
        for _ in range(shared.READS):
            await reads.state()
            found.append(reads.seconds())
        await app.aclose()
        return found

    monkeypatch.setattr(shared, "SHARED_SECONDS", 0.0)
    monkeypatch.setattr(shared, "LONG_SECONDS", 60.0)
    assert asyncio.run(body()) == [2.0] * 6
    monkeypatch.setattr(shared, "LONG_SECONDS", 0.0)
    assert asyncio.run(body()) == [2.0] * 5 + [4.0]


@pytest.mark.parametrize("interval", [1.0, 2.0, 4.0])
def test_pages_do_not_look_stale_when_they_are_read_less_often(interval: float) -> None:
    """They look stale after 4.7 seconds. A read may end at any time."""
    moments = [tenths / 10 for tenths in range(81)]
    pauses = [readings.seconds_until_next(interval, moment) for moment in moments]
    assert max(pauses) <= 4.0
    assert min(pauses) >= min(interval, 2.0) / 2
    for moment, pause in zip(moments, pauses, strict=True):
        second = moment + pause + 0.03  # a read
        third = second + readings.seconds_until_next(interval, second)
        assert round(third, 6) % interval == 0, "all topics are read at the same moments"


def test_several_who_ask_at_once_wait_for_one_read() -> None:
    reads = 0

    async def read() -> int:
        nonlocal reads
        reads += 1
        await asyncio.sleep(0.05)
        return reads

    async def body() -> None:
        shared = Readings()
        assert await asyncio.gather(*(shared.recent("list", read, 0.0) for _ in range(50))) == [1] * 50
        await asyncio.sleep(0.01)
        assert await shared.recent("list", read, 60.0) == 1
        assert await shared.recent("list", read, 0.01) == 2

    asyncio.run(body())


def test_a_read_that_failed_is_not_kept() -> None:
    """Else pages would say for some seconds that the database is unavailable, although it is back."""

    async def fail() -> int:
        raise ConnectionError

    async def read() -> int:
        return 1

    async def body() -> None:
        shared = Readings()
        with pytest.raises(ConnectionError):
            await shared.recent("list", fail, 60.0)
        assert await shared.recent("list", read, 60.0) == 1

    asyncio.run(body())


def test_pages_are_told_when_a_read_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readings, "SLOW_SECONDS", 0.05)
    reads = 0

    async def read() -> int:
        nonlocal reads
        reads += 1
        if reads == 2:
            await asyncio.sleep(0.3)
        return reads

    async def body() -> None:
        async with aclosing(Readings().follow("slow", read, 0.01)) as updates:
            kinds = [type(await anext(updates)) for _ in range(3)]
            assert kinds == [Reading, Unavailable, Unavailable]
            while not isinstance(update := await anext(updates), Reading):
                pass
            # The slow read went on: a second one was not begun beside it.
            assert update.value == 2

    asyncio.run(body())


def test_pages_that_wait_are_told_what_keeps_others_from_being_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readings, "SLOW_SECONDS", 0.1)
    monkeypatch.setattr(readings, "RETRY_SECONDS", 0.01)
    limits: list[float] = []
    ended = asyncio.Event()

    async def locked() -> None:
        known = current()
        assert known
        limits.append(known.read_lock)
        if len(limits) > readings.MAX_READS:
            await ended.wait()
        raise TableLocked("locked")

    async def free() -> None:
        pass

    async def body() -> None:
        shared = Readings()
        async with AsyncExitStack() as stack:
            pages = [shared.follow(("locked", n), locked) for n in range(readings.MAX_READS)]
            await asyncio.gather(*(first(stack, each) for each in pages))
            while len(limits) < 2 * readings.MAX_READS:  # until all turns are taken
                await asyncio.sleep(0.001)
            waiting = await first(stack, shared.follow("free", free))
            assert waiting == Unavailable(summary_of(TableLocked()))
            # A page that was told the reason is told no other one while the next read goes on.
            assert [await anext(pages[0]) for _ in range(2)] == [waiting, waiting]
            at_once = await first(stack, shared.follow("health", free, takes_turns=False))
            assert isinstance(at_once, Reading)
            ended.set()

    asyncio.run(body())
    # Once the lock is known, a read waits less long for it.
    assert limits[0] == screen_limits.ON_SCREEN.read_lock
    assert limits[readings.MAX_READS] == readings.KNOWN_LOCK_SECONDS


def test_pages_are_read_at_once_when_something_changes_that_they_must_show_soon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A worker becomes stuck, the database does not answer, a table is locked; and the end of it."""
    monkeypatch.setattr(readings, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(readings, "SLOW_LOOK_SECONDS", 60.0)
    monkeypatch.setattr(readings, "CHANGE_SECONDS", 0.0)
    answers: asyncio.Queue[object] = asyncio.Queue()
    looks = reads = kept = 0

    async def look() -> object:
        nonlocal looks
        looks += 1
        found = await answers.get()
        if isinstance(found, Exception):
            raise found
        return found

    async def keep() -> int:
        nonlocal kept
        kept += 1
        return kept

    async def body() -> None:
        shared = Readings(look)

        async def read() -> int:
            nonlocal reads
            reads += 1
            return await shared.recent("state", keep, 60.0)

        async def is_read_after(found: object) -> bool:
            before, known = reads, looks
            answers.put_nowait(found)
            await auntil(lambda: looks > known)  # so the answer has been compared
            for _ in range(100):
                await asyncio.sleep(0)
            return reads > before

        async with aclosing(shared.follow("overview", read, 60.0)) as updates:
            await anext(updates)
            await auntil(lambda: looks)
            assert not await is_read_after(frozenset()), "it has just been read"
            assert not await is_read_after(frozenset())
            assert await is_read_after(frozenset({"stuck"}))
            assert kept == 2, "what was kept from before is not shown"
            assert not await is_read_after(frozenset({"stuck"}))
            assert await is_read_after(TableLocked())
            assert not await is_read_after(TableLocked())
            assert await is_read_after(frozenset())
            monkeypatch.setattr(readings, "CHANGE_SECONDS", 60.0)
            assert not await is_read_after(frozenset({"stuck"})), "not again and again"
            monkeypatch.setattr(readings, "CHANGE_SECONDS", 0.0)
            assert await is_read_after(frozenset({"stuck"})), "but it is not forgotten"
            monkeypatch.setattr(readings, "SLOW_LOOK_SECONDS", 0.05)
            before = reads
            answers.put_nowait(frozenset({"stuck"}))
            await auntil(lambda: reads > before)  # the next look has no answer
        assert shared._watching
        await asyncio.wait({shared._watching}, timeout=5)
        assert shared._watching.cancelled(), "nobody looks at a page any more"

    asyncio.run(body())


def test_a_few_topics_are_read_at_a_time() -> None:
    now = most = 0

    async def read() -> None:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.01)
        now -= 1

    async def body() -> None:
        shared = Readings()
        async with AsyncExitStack() as stack:
            await asyncio.gather(*(first(stack, shared.follow(n, read)) for n in range(20)))
        assert most == readings.MAX_READS

    asyncio.run(body())

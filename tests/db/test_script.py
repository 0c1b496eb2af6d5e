"""Scripts: generators that yield queries, with one driver for sync and one for async code."""

import asyncio
import threading
from collections.abc import Generator
from typing import Any

import pytest

from treadle.db.query import Query
from treadle.db.script import Request, adrive, aiterate, drive, iterate


class Double(Request):
    def __init__(self, number: int) -> None:
        self.number = number


def query(number: int) -> Query[int]:
    return Query("select", {"number": number}, lambda _: number)


def run(request: Query[int] | Double) -> int:
    return request.number * 2 if isinstance(request, Double) else request.read(())


async def arun(request: Query[int] | Double) -> int:
    return run(request)


def refuse(request: object) -> int:
    raise OSError("the cable was pulled")


async def arefuse(request: object) -> int:
    return refuse(request)


class Script:
    """Adds up the replies, and records how it finished and on which thread it ran."""

    def __init__(self) -> None:
        self.closed = False
        self.raised: BaseException | None = None
        self.threads: set[threading.Thread] = set()

    def total(self) -> Generator[Query[int] | Double, Any, int]:
        try:
            self.threads.add(threading.current_thread())
            first = yield query(3)
            second = yield Double(4)
            return int(first + second)
        except BaseException as error:
            self.raised = error
            raise
        finally:
            self.closed = True

    def items(self) -> Generator[Query[int] | Double | str, Any, None]:
        try:
            for number in range(3):
                reply = yield query(number)
                nothing = yield f"item {reply}"
                assert nothing is None
        finally:
            self.closed = True


async def collected(script: Script) -> list[str]:
    return [item async for item in aiterate(script.items(), arun)]


def test_a_script_gets_the_replies_to_its_requests() -> None:
    assert drive(Script().total(), run) == 11
    assert asyncio.run(adrive(Script().total(), arun)) == 11


def test_items_are_passed_to_the_caller_and_requests_are_not() -> None:
    assert list(iterate(Script().items(), run)) == ["item 0", "item 1", "item 2"]
    assert asyncio.run(collected(Script())) == ["item 0", "item 1", "item 2"]


@pytest.mark.parametrize("on_thread", [False, True])
def test_a_request_that_fails_is_raised_to_the_caller_and_closes_the_script(on_thread: bool) -> None:
    sync, awaited = Script(), Script()
    kept = [sync.total(), awaited.total()]  # references, or the garbage collector would close them
    with pytest.raises(OSError, match="the cable was pulled"):
        drive(kept[0], refuse)
    with pytest.raises(OSError, match="the cable was pulled"):
        asyncio.run(adrive(kept[1], arefuse, on_thread=on_thread))
    for script in (sync, awaited):
        assert script.closed
        assert isinstance(script.raised, GeneratorExit)


def test_an_abandoned_iteration_closes_the_script() -> None:
    async def first() -> str:
        items = aiterate(kept[1], arun)
        item = await anext(items)
        await items.aclose()
        return item

    scripts = [Script(), Script()]
    kept = [script.items() for script in scripts]
    items = iterate(kept[0], run)
    assert next(items) == "item 0"
    items.close()
    assert asyncio.run(first()) == "item 0"
    assert all(script.closed for script in scripts)


def test_a_script_that_blocks_is_advanced_on_a_thread() -> None:
    script = Script()
    assert asyncio.run(adrive(script.total(), arun, on_thread=True)) == 11
    assert threading.main_thread() not in script.threads


def test_a_script_can_be_cancelled_while_its_thread_runs() -> None:
    started, go = threading.Event(), threading.Event()

    def slow() -> Generator[Query[int], Any, None]:
        started.set()
        go.wait(10)
        yield query(1)

    async def cancel() -> None:
        task = asyncio.create_task(adrive(slow(), arun, on_thread=True))
        await asyncio.to_thread(started.wait, 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        go.set()

    asyncio.run(cancel())

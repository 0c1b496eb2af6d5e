"""Code around handlers: on the event loop of the worker, or where the handler runs."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from contextvars import ContextVar
from typing import Any

import pytest

from tests.support import around
from tests.support.apps import use_database
from tests.support.workers import run
from treadle import Handle, InvalidArgument, Job, JobFailed, Retries, Treadle
from treadle.jobs.function import JobFunction
from treadle.worker.worker import Worker

Function = JobFunction[..., Any, ..., Any]


def test_middleware_goes_around_every_handler(app: Treadle) -> None:
    seen: list[str] = []

    @app.middleware
    async def outer(job: Job, call_next: Callable[[], Awaitable[Any]]) -> Any:
        seen.append(f"before {job.type}")
        try:
            return await call_next()
        finally:
            seen.append(f"after {job.type}")

    @app.middleware
    async def inner(job: Job, call_next: Callable[[], Awaitable[Any]]) -> Any:
        seen.append("inside")
        return f"<{await call_next()}>"

    @app.job
    async def one() -> str:
        return "1"

    @app.job
    def two() -> str:
        return "2"

    async def body(worker: Worker) -> None:
        assert await (await one.aenqueue()).aresult(30) == "<1>"
        assert await (await two.aenqueue()).aresult(30) == "<2>"

    run(app, body)
    assert seen == ["before one", "inside", "after one", "before two", "inside", "after two"]


@pytest.fixture
def around_app(url: str, monkeypatch: pytest.MonkeyPatch) -> Treadle:
    use_database(around.app, url, monkeypatch)
    return around.app


async def _noted(job: Handle[Any]) -> list[tuple[str, Any]]:
    names = ("before", "after", "raised")
    return [(each.name, each.data) async for each in job.events(follow=False) if each.name in names]


@pytest.mark.parametrize(
    "function",
    [around.on_the_loop, around.on_a_thread, around.in_a_child, around.on_the_loop_of_a_child],
    ids=lambda function: function.name,
)
def test_a_generator_middleware_runs_where_the_handler_does(around_app: Treadle, function: Function) -> None:
    async def body(_: Worker) -> None:
        completed = await function.aenqueue(n=7)
        pid, thread = await completed.aresult(60)
        assert (pid == os.getpid()) is not function.policy.process
        before, after = await _noted(completed)
        assert before == ("before", {"pid": pid, "thread": thread, "arguments": {"n": 7}})
        assert after == ("after", {"pid": pid, "thread": thread})

        failed = await function.aenqueue(n=-1)
        with pytest.raises(JobFailed, match="n is negative"):
            await failed.aresult(60)
        assert [name for name, _ in await _noted(failed)] == ["before", "raised"]

    run(around_app, body, types=[function.name])


def test_what_a_generator_middleware_sets_is_seen_by_the_handler(app: Treadle) -> None:
    tenant: ContextVar[str] = ContextVar("tenant")

    @app.middleware
    def with_tenant(job: Job) -> Iterator[None]:
        token = tenant.set(job.arguments["name"])
        yield
        tenant.reset(token)

    @app.job
    async def here(name: str) -> str:
        return tenant.get()

    @app.job
    def there(job: Job, name: str) -> str:
        return tenant.get()

    async def body(_: Worker) -> None:
        assert await (await here.aenqueue(name="acme")).aresult(30) == "acme"
        assert await (await there.aenqueue(name="umbrella")).aresult(30) == "umbrella"

    run(app, body)


def test_a_generator_middleware_that_catches_the_exception_completes_the_job(app: Treadle) -> None:
    @app.middleware
    def forgiving(job: Job) -> Iterator[None]:
        with suppress(ZeroDivisionError):
            yield

    @app.job(retry=Retries(0))
    async def divide(n: int) -> float | None:
        return 1 / n

    async def body(_: Worker) -> None:
        assert await (await divide.aenqueue(n=0)).aresult(30) is None

    run(app, body)


def test_an_async_middleware_sees_the_arguments_of_a_handler_in_a_child_process(
    around_app: Treadle, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []

    async def look(job: Job, call_next: Callable[[], Awaitable[Any]]) -> Any:
        seen.append(dict(job.arguments))
        return await call_next()

    monkeypatch.setattr(around_app.backend.middlewares, "outer", [look])

    async def body(_: Worker) -> None:
        await (await around.in_a_child.aenqueue(n=3)).aresult(60)

    run(around_app, body, types=["in_a_child"])
    assert seen == [{"n": 3}]


def test_an_async_middleware_can_catch_the_failure_of_a_handler_in_a_child_process(
    around_app: Treadle, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def forgiving(job: Job, call_next: Callable[[], Awaitable[Any]]) -> Any:
        with suppress(Exception):
            return await call_next()
        return None

    monkeypatch.setattr(around_app.backend.middlewares, "outer", [forgiving])

    async def body(_: Worker) -> None:
        failed = await around.in_a_child.aenqueue(n=-1)
        while (row := await failed.ajob()).finished_at is None:
            await asyncio.sleep(0.05)
        assert row.status == "completed"

    run(around_app, body, types=["in_a_child"])


def test_a_middleware_of_another_kind_is_refused(app: Treadle) -> None:
    def plain(job: Job) -> None: ...

    async def generator(job: Job) -> Any:
        yield

    for wrong in (plain, generator, "timed"):
        with pytest.raises(InvalidArgument, match="a middleware must be an async function"):
            app.middleware(wrong)  # type: ignore[type-var]
    with pytest.raises(InvalidArgument, match="an enqueue middleware must be a generator function"):
        app.enqueue_middleware(plain)  # type: ignore[arg-type]

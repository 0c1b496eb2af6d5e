"""Handlers that set a tracer or a profiler."""

import asyncio
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import psycopg
import pytest

import treadle
from tests.support.workers import auntil, run
from treadle import Retries, Treadle
from treadle.worker.worker import Worker

FOLDERS = tuple(f"{Path(each.__path__[0])}/" for each in (treadle, psycopg))


class Forbidden(Exception):
    pass


def refuse(frame: FrameType, *_: Any) -> Any:
    """A tracer that lets every call within the worker fail."""
    if frame.f_code.co_filename.startswith(FOLDERS):
        raise Forbidden


def watch(*_: Any) -> None:
    """One that does nothing. One that raises ends by that."""


@pytest.fixture
def clean() -> Any:
    """Coverage has a tracer of its own."""
    tracer, profiler = sys.gettrace(), sys.getprofile()
    yield
    sys.settrace(tracer)
    sys.setprofile(profiler)


@pytest.mark.usefixtures("clean")
@pytest.mark.parametrize("function", [refuse, watch])
@pytest.mark.parametrize("how", ["settrace", "setprofile"])
def test_it_does_not_reach_the_tasks_of_the_worker(app: Treadle, how: str, function: Any) -> None:
    @app.job(retry=Retries(0))
    async def trace() -> None:
        getattr(sys, how)(function)

    @app.job
    async def other() -> str:
        return "well"

    async def body(_: Worker) -> None:
        before = sys.gettrace(), sys.getprofile()
        tracing = await trace.aenqueue()
        await auntil(lambda: tracing.status().finished)
        assert (sys.gettrace(), sys.getprofile()) == before
        assert await (await other.aenqueue()).aresult(30) == "well"

    run(app, body)


def test_it_does_not_reach_the_next_job_of_a_thread(app: Treadle) -> None:
    @app.job
    def trace() -> None:
        sys.settrace(lambda *_: None)

    @app.job
    def traced() -> bool:
        return sys.gettrace() is not None

    async def body(_: Worker) -> None:
        before = await (await traced.aenqueue()).aresult(30)
        await (await trace.aenqueue()).aresult(30)
        assert await (await traced.aenqueue()).aresult(30) == before

    run(app, body, concurrency=1)


@pytest.mark.usefixtures("clean")
def test_a_handler_that_is_interrupted_keeps_its_tracer_to_itself(app: Treadle) -> None:
    @app.job(timeout="50ms")
    async def trace() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            sys.settrace(refuse)

    async def body(_: Worker) -> None:
        before = sys.gettrace()
        handle = await trace.aenqueue()
        await auntil(handle.aerrors)
        assert sys.gettrace() is before

    run(app, body)

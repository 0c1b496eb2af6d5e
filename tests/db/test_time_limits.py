"""Callers get an error within a time limit if the database is away, or acknowledges and never answers."""

import asyncio
import logging
import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import psycopg
import pytest
from chaos.proxy import Proxy

from treadle import Connections, DatabaseUnreachable, InvalidArgument, JobQueue, Treadle
from treadle.db import pools, runner


@pytest.fixture
def proxy(url: str) -> Iterator[Proxy]:
    proxy = Proxy(url)
    yield proxy
    proxy.close()


@pytest.fixture
def queue_at(proxy: Proxy) -> Iterator[Callable[..., JobQueue]]:
    opened: list[JobQueue] = []

    def open_queue(connect_timeout: str = "0.5s", **limits: Any) -> JobQueue:
        opened.append(JobQueue(proxy.url, connections=Connections(connect_timeout=connect_timeout, **limits)))
        return opened[-1]

    yield open_queue
    for each in opened:
        each.close()


def seconds_until_unreachable(call: Callable[[], object], match: str) -> float:
    began = time.monotonic()
    with pytest.raises(DatabaseUnreachable, match=match):
        call()
    return time.monotonic() - began


def test_an_enqueue_fails_soon_and_an_outage_is_one_line(
    proxy: Proxy, queue_at: Callable[..., JobQueue], caplog: pytest.LogCaptureFixture
) -> None:
    queue = queue_at()
    queue.enqueue("a")
    proxy.black_hole_everything(True)
    proxy.cut()
    proxy._listening.close()
    with pytest.raises(Exception, match="connection"):
        queue.enqueue("a")  # the statement that was in progress
    for _ in range(3):
        seconds = seconds_until_unreachable(
            lambda: queue.enqueue("a"), r"no connection to 127\.0\.0\.1:\d+/.*: none within 0\.5 seconds: .+"
        )
        assert seconds > 0.4
    lines = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(lines) == 1
    assert lines[0].startswith("the database at 127.0.0.1:")


def test_the_end_of_an_outage_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    told = pools.ConnectionLog("postgresql://ada:hunter2@db/app")
    for _ in range(5):
        told.failed(OSError("refused"))
    told.succeeded()
    told.succeeded()
    unavailable, back = [record.getMessage() for record in caplog.records]
    assert unavailable == "the database at db/app is unavailable: refused"
    assert re.fullmatch(r"the database is back after \d+\.\d seconds", back)


def test_a_statement_that_is_never_answered_ends_with_an_error(
    proxy: Proxy, queue_at: Callable[..., JobQueue], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pools, "RENEW_SECONDS", 0)  # one second is less than the limits that people choose
    queue = queue_at(statement_timeout="0.4s")
    queue.enqueue("a")
    for call in (lambda: queue.enqueue("a"), queue.list, lambda: queue.enqueue_many("a", [{}] * 3)):
        proxy.go_silent()
        said = "does not answer: no answer within 0.4 seconds; whether the statement was carried out is unknown"
        seconds_until_unreachable(call, said)
        queue.enqueue("a")  # on a new connection


def test_an_async_statement_that_is_never_answered_ends_with_an_error(proxy: Proxy) -> None:
    async def body() -> float:
        queue = JobQueue(proxy.url, connections=Connections(statement_timeout="0.4s"))
        await queue.aenqueue("a")
        proxy.go_silent()
        began = time.monotonic()
        with pytest.raises(DatabaseUnreachable, match=r"no answer within 0\.4 seconds"):
            await queue.aenqueue("a")
        seconds = time.monotonic() - began
        await queue.aenqueue("a")
        await queue.aclose()
        return seconds

    assert asyncio.run(body()) < 30


def test_the_first_connection_has_a_limit_and_callers_that_wait_for_it_fail_with_it(
    proxy: Proxy, queue_at: Callable[..., JobQueue]
) -> None:
    proxy.ignore_new_connections()
    queue = queue_at(connect_timeout="2s")  # the minimum of libpq
    with ThreadPoolExecutor(10) as threads:
        began = time.monotonic()
        waiting = [threads.submit(queue.enqueue, "a") for _ in range(10)]
        for each in waiting:
            with pytest.raises(DatabaseUnreachable, match="connection timeout expired"):
                each.result()
        assert time.monotonic() - began < 15, "one attempt, not ten in a row"


def test_statements_of_the_caller_are_not_limited(proxy: Proxy) -> None:
    app = Treadle(proxy.url, connections=Connections(statement_timeout="0.3s"))
    with app.database.transaction() as transaction:
        transaction.execute("select pg_sleep(0.6)")
    app.close()


def test_a_caller_waits_for_longer_if_all_connections_are_in_use(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "BUSY_SECONDS", 0.2)
    app = Treadle(url, connections=Connections(pool_size=1, connect_timeout="0.1s"))
    with app.database.transaction(), pytest.raises(DatabaseUnreachable, match=r"all 1 were in use for 0\.3 seconds"):
        app.queue.enqueue("a")
    app.queue.enqueue("a")
    app.close()


def test_a_read_whose_client_was_lost_keeps_no_lock(url: str, proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "IDLE_SECONDS", 0.3)
    with closing(psycopg.connect(proxy.url)) as lost, psycopg.connect(url) as other:
        lost.execute(runner.read_settings(60))
        lost.execute("select from treadle.jobs")
        proxy.go_silent()
        other.execute("set lock_timeout = '20s'")
        other.execute("lock table treadle.jobs in access exclusive mode")


def test_limits_come_from_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    assert pools.chosen_limits(Connections()) == (5, 30)
    monkeypatch.setenv("TREADLE_CONNECT_TIMEOUT", "2s")
    monkeypatch.setenv("TREADLE_STATEMENT_TIMEOUT", "0s")
    assert pools.chosen_limits(Connections()) == (2, None)
    assert pools.chosen_limits(Connections(connect_timeout="7s", statement_timeout=9)) == (7, 9)
    with pytest.raises(InvalidArgument, match="connect_timeout must be more than 0"):
        Connections(connect_timeout=0)

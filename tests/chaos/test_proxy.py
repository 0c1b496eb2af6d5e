"""The proxy of chaos/: what it does to connections, and that statements whose reply it drops were executed."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from chaos.proxy import Proxy
from psycopg import Connection

from tests.support.workers import count
from treadle import DatabaseUnreachable, JobQueue


@pytest.fixture
def proxy(url: str) -> Iterator[Proxy]:
    proxy = Proxy(url)
    yield proxy
    proxy.close()


ADD = "insert into treadle.jobs (job_type) values ('a')"


def test_a_commit_whose_reply_is_lost_was_executed(proxy: Proxy, connection: Connection[Any]) -> None:
    proxy.lose_replies(1, "COMMIT")
    client = psycopg.connect(proxy.url)
    client.execute(ADD)  # inside a transaction, so this reply is not lost
    with pytest.raises(psycopg.OperationalError):
        client.commit()
    assert (count(connection), proxy.replies_lost) == (1, 1)
    with psycopg.connect(proxy.url) as another:
        another.execute(ADD)
    assert (count(connection), proxy.replies_lost) == (2, 1)


def test_a_single_statement_whose_reply_is_lost_was_executed(proxy: Proxy, connection: Connection[Any]) -> None:
    with psycopg.connect(proxy.url, autocommit=True) as client:
        proxy.lose_replies(1)
        with pytest.raises(psycopg.OperationalError):
            client.execute(ADD)
    assert count(connection) == 1


def test_the_reply_to_a_rollback_is_never_lost(proxy: Proxy, connection: Connection[Any]) -> None:
    with psycopg.connect(proxy.url) as client:
        proxy.lose_replies(1)
        client.execute(ADD)
        client.rollback()
        proxy.lose_replies(0)
    assert (count(connection), proxy.replies_lost) == (0, 0)


def test_large_replies_arrive_complete(proxy: Proxy) -> None:
    with psycopg.connect(proxy.url, autocommit=True) as client:
        rows = client.execute("select n, repeat('x', 1000) from generate_series(1, 2000) as n").fetchall()
        assert [n for n, _ in rows] == list(range(1, 2001))
        assert {len(text) for _, text in rows} == {1000}


def test_after_a_cut_new_connections_work(proxy: Proxy) -> None:
    with psycopg.connect(proxy.url, autocommit=True) as client:
        proxy.cut()
        with pytest.raises(psycopg.OperationalError):
            client.execute("select 1")
    psycopg.connect(proxy.url).close()


def test_a_silent_connection_is_reset_after_give_up_after(url: str) -> None:
    proxy = Proxy(url, give_up_after=0.5)
    try:
        with psycopg.connect(proxy.url, autocommit=True) as client:
            proxy.go_silent()
            with pytest.raises(psycopg.OperationalError):
                client.execute("select 1")
        psycopg.connect(proxy.url).close()
    finally:
        proxy.close()


def test_a_black_hole_never_replies(proxy: Proxy) -> None:
    proxy.black_hole_everything(True)
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(proxy.url, connect_timeout=2)
    proxy.black_hole_everything(False)
    psycopg.connect(proxy.url, connect_timeout=20).close()


def test_the_proxy_keeps_running_while_the_server_is_down(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused() -> None:
        raise ConnectionRefusedError

    with monkeypatch.context() as server_down:
        server_down.setattr(proxy, "_connect", refused)
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(proxy.url, connect_timeout=5)
    psycopg.connect(proxy.url).close()


def test_a_connection_that_breaks_during_the_schema_check_raises_a_clear_error(proxy: Proxy) -> None:
    proxy.lose_replies(1)
    with JobQueue(proxy.url) as queue:
        with pytest.raises(DatabaseUnreachable, match=r"^cannot reach PostgreSQL at 127\.0\.0\.1:"):
            queue.enqueue("a")
        queue.enqueue("a")

"""The proxy of chaos/: what it does to connections, and that what it swallowed was carried out."""

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


def test_a_commit_whose_answer_is_lost_was_carried_out(proxy: Proxy, connection: Connection[Any]) -> None:
    proxy.lose_replies(1, "COMMIT")
    client = psycopg.connect(proxy.url)
    client.execute(ADD)  # in a transaction: it is not this answer that is lost
    with pytest.raises(psycopg.OperationalError):
        client.commit()
    assert (count(connection), proxy.lost) == (1, 1)
    with psycopg.connect(proxy.url) as another:
        another.execute(ADD)
    assert (count(connection), proxy.lost) == (2, 1)


def test_a_statement_by_itself_whose_answer_is_lost_was_carried_out(proxy: Proxy, connection: Connection[Any]) -> None:
    with psycopg.connect(proxy.url, autocommit=True) as client:
        proxy.lose_replies(1)
        with pytest.raises(psycopg.OperationalError):
            client.execute(ADD)
    assert count(connection) == 1


def test_a_rollback_is_not_swallowed(proxy: Proxy, connection: Connection[Any]) -> None:
    with psycopg.connect(proxy.url) as client:
        proxy.lose_replies(1)
        client.execute(ADD)
        client.rollback()
        proxy.lose_replies(0)
    assert (count(connection), proxy.lost) == (0, 0)


def test_large_answers_pass_whole(proxy: Proxy) -> None:
    with psycopg.connect(proxy.url, autocommit=True) as client:
        rows = client.execute("select n, repeat('x', 1000) from generate_series(1, 2000) as n").fetchall()
        assert [n for n, _ in rows] == list(range(1, 2001))
        assert {len(text) for _, text in rows} == {1000}


def test_connections_are_cut_and_new_ones_are_fine(proxy: Proxy) -> None:
    with psycopg.connect(proxy.url, autocommit=True) as client:
        proxy.cut()
        with pytest.raises(psycopg.OperationalError):
            client.execute("select 1")
    psycopg.connect(proxy.url).close()


def test_a_silent_connection_is_given_up_when_patience_ends(url: str) -> None:
    proxy = Proxy(url, give_up_after=0.5)
    try:
        with psycopg.connect(proxy.url, autocommit=True) as client:
            proxy.go_silent()
            with pytest.raises(psycopg.OperationalError):
                client.execute("select 1")
        psycopg.connect(proxy.url).close()
    finally:
        proxy.close()


def test_a_network_that_is_gone_answers_nobody(proxy: Proxy) -> None:
    proxy.black_hole_everything(True)
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(proxy.url, connect_timeout=2)
    proxy.black_hole_everything(False)
    psycopg.connect(proxy.url, connect_timeout=20).close()


def test_a_server_that_is_away_for_a_while_does_not_end_it(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused() -> None:
        raise ConnectionRefusedError

    with monkeypatch.context() as away:
        away.setattr(proxy, "_connect", refused)
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(proxy.url, connect_timeout=5)
    psycopg.connect(proxy.url).close()


def test_a_connection_that_breaks_while_the_schema_is_checked_is_told_in_a_sentence(proxy: Proxy) -> None:
    proxy.lose_replies(1)
    with JobQueue(proxy.url) as queue:
        with pytest.raises(DatabaseUnreachable, match=r"^cannot reach PostgreSQL at 127\.0\.0\.1:"):
            queue.enqueue("a")
        queue.enqueue("a")

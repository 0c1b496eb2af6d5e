"""The tests of a user, with the fixtures of the plugin."""

import asyncio
from pathlib import Path

import psycopg
import pytest
from shop import outbox, remind, signup, welcome

from treadle.testing import Harness


@pytest.fixture(autouse=True)
def empty_outbox() -> None:
    outbox.clear()


@pytest.mark.parametrize("user", range(6))
def test_signup(treadle: Harness, user: int) -> None:
    signup(user)
    treadle.assert_enqueued(welcome, user_id=user)
    treadle.assert_enqueued(remind, user_id=user, delay="1d")
    assert len(treadle.enqueued(welcome)) == 1  # nothing is left of the tests before
    assert treadle.drain().completed == 1
    assert outbox == [f"welcome {user}"]
    treadle.travel("1d")
    treadle.drain()
    assert f"reminder for {user}" in outbox


def test_a_day_goes_by(treadle: Harness) -> None:
    treadle.drain(until="2d")
    assert outbox == ["daily report"] * 2


def test_inline(treadle: Harness) -> None:
    with treadle.inline():
        assert welcome.enqueue(user_id=7).result() == "short welcome for 7"


def test_async_code(treadle: Harness) -> None:
    async def main() -> None:
        handle = await welcome.aenqueue(user_id=7)
        await treadle.adrain()
        assert await handle.aresult() == "short welcome for 7"

    asyncio.run(main())


def test_each_process_has_its_own_database(treadle_url: str, treadle: Harness, worker_id: str) -> None:
    with psycopg.connect(treadle_url) as connection:
        Path(f"database-{worker_id}").write_text(str(connection.info.dbname))
    signup(1)


class TestInATransaction:
    @pytest.fixture
    def connection(self, treadle_url: str) -> psycopg.Connection[tuple[object, ...]]:
        return psycopg.connect(treadle_url)

    @pytest.fixture
    def treadle_connection(self, connection: psycopg.Connection[tuple[object, ...]]) -> object:
        with connection:
            yield connection
            connection.rollback()

    @pytest.mark.parametrize("user", range(2))
    def test_signup(
        self, treadle: Harness, connection: psycopg.Connection[tuple[object, ...]], treadle_url: str, user: int
    ) -> None:
        signup(user)
        assert connection.execute("select count(*) from treadle.jobs where job_type = 'welcome'").fetchall() == [(1,)]
        with psycopg.connect(treadle_url) as other:
            assert other.execute("select count(*) from treadle.jobs").fetchall() == [(0,)]
        assert treadle.drain().completed == 1


def test_a_failure_is_readable(treadle: Harness) -> None:
    signup(7)
    treadle.assert_enqueued(welcome, user_id=8)

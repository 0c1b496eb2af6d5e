"""The tables of the shop are in the test database of the queue, and emptied after each test as well."""

import asyncio
from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient
from shop.database import create_tables, sessions
from shop.main import web
from sqlalchemy import NullPool, make_url, text
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from treadle.testing import Harness


@pytest.fixture(scope="session")
def engine(treadle_url: str) -> AsyncEngine:
    # Without a pool: handlers and requests run on event loops of their own.
    engine = create_async_engine(make_url(treadle_url).set(drivername="postgresql+asyncpg"), poolclass=NullPool)
    asyncio.run(create_tables(engine))
    sessions.configure(bind=engine)
    return engine


@pytest.fixture
def client(engine: AsyncEngine, treadle: Harness) -> Iterator[TestClient]:
    with TestClient(web) as client:
        yield client
    asyncio.run(empty(engine))


async def empty(engine: AsyncEngine) -> None:
    async with engine.begin() as connection:
        await connection.execute(text("truncate orders restart identity"))


@pytest.fixture
def bob(client: TestClient) -> TestClient:
    return sign_in(client, "bob", "builder")


@pytest.fixture
def ada(client: TestClient) -> TestClient:
    return sign_in(client, "ada", "countess")


def sign_in(client: TestClient, name: str, password: str) -> TestClient:
    assert client.post("/sign-in", json={"name": name, "password": password}).status_code == 204
    return client

"""A table for the effects of handlers."""

from collections.abc import Iterator
from typing import Any

import pytest
from psycopg import Connection


@pytest.fixture
def effects(connection: Connection[Any]) -> Iterator[None]:
    connection.execute("create table public.effects (what text)")
    yield
    connection.execute("drop table public.effects")

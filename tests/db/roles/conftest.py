"""Each test runs as users that have one role and no other."""

from collections.abc import Iterator
from typing import Any

import pytest
from psycopg import Connection

from tests.support.roles import Roles, granted_roles, schema_owner
from treadle import JobQueue, migrate


@pytest.fixture
def roles(empty_url: str) -> Iterator[Roles]:
    """An ordinary user owns the schema, so security definer functions can do no more than this user."""
    with schema_owner(empty_url) as owner_url:
        migrate(owner_url)
        with granted_roles(empty_url, owner_url) as roles:
            yield roles


@pytest.fixture
def owner(roles: Roles) -> Connection[Any]:
    return roles.connect()


@pytest.fixture
def queue(roles: Roles) -> Iterator[JobQueue]:
    """A queue with the privileges of the owner."""
    with JobQueue(roles.url, "owner") as queue:
        yield queue

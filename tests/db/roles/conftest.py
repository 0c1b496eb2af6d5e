"""Each test runs as users that have one role and no other."""

import os
from collections.abc import Iterator
from typing import Any

import pytest
from psycopg import Connection
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.conftest import SERVER
from tests.support.databases import create_database
from tests.support.roles import Roles, granted_roles, schema_owner
from treadle import JobQueue, migrate


@pytest.fixture(scope="session")
def template_owner_url() -> Iterator[str]:
    """A database to copy, whose schema belongs to an ordinary user: a migration takes longer than most tests."""
    for url in create_database(os.environ[SERVER], "template0"):
        with schema_owner(url) as owner_url:
            migrate(owner_url)
            yield owner_url


@pytest.fixture
def roles(server_url: str, template_owner_url: str) -> Iterator[Roles]:
    """An ordinary user owns the schema, so security definer functions can do no more than this user."""
    template = str(conninfo_to_dict(template_owner_url)["dbname"])
    for url in create_database(server_url, template):
        owner_url = make_conninfo(template_owner_url, dbname=conninfo_to_dict(url)["dbname"])
        with granted_roles(url, owner_url) as roles:
            yield roles


@pytest.fixture
def owner(roles: Roles) -> Connection[Any]:
    return roles.connect()


@pytest.fixture
def queue(roles: Roles) -> Iterator[JobQueue]:
    """A queue with the privileges of the owner."""
    with JobQueue(roles.url, "owner") as queue:
        yield queue

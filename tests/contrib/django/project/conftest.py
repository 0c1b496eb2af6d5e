"""treadle.testing with pytest-django."""

import pytest


@pytest.fixture(scope="session")
def treadle_app(django_db_setup):
    from treadle.contrib.django import app
    from treadle.testing import prepare

    prepare(app.database.url)
    return app


@pytest.fixture
def treadle_connection(db):
    from django.db import connection

    return connection

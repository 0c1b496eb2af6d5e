"""Our own connections have the settings that they need, whatever the database sets."""

import asyncio

import psycopg
import pytest

from tests.support.workers import auntil, running_worker
from treadle import Job, Treadle, migrate
from treadle.doctor.examine import examine
from treadle.doctor.finding import Severity


@pytest.mark.parametrize(
    "setting",
    ["DateStyle = 'German'", "DateStyle = 'SQL, DMY'", "array_nulls = off", "client_encoding = 'SQL_ASCII'"],
)
def test_other_defaults_of_the_database_do_not_matter(empty_url: str, setting: str) -> None:
    with psycopg.connect(empty_url, autocommit=True) as connection:
        connection.execute(f"alter database {connection.info.dbname} set {setting}")
    migrate(empty_url)
    app = Treadle(empty_url)

    @app.job
    async def greet(job: Job, name: str) -> str:
        job.progress(50, stage="écrit")
        await asyncio.sleep(0.6)
        return f"hello {name}"

    async def body() -> None:
        async with running_worker(app):
            handle = await greet.aenqueue(name="Zoë")
            await auntil(lambda: handle.job().progress == 50)
            assert handle.job().current_stage == "écrit"
            assert await handle.aresult(30) == "hello Zoë"

    asyncio.run(body())
    assert {each.level for each in examine(app.database)} <= {Severity.OK, Severity.NOTE, Severity.WARNING}
    app.close()

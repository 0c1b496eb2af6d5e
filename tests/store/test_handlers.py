"""What handlers store, and what their results refer to, is used by their jobs."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import Connection

from tests.support import store_handlers
from tests.support.apps import run_jobs
from tests.support.stores import count_rows, sweep, unknown_reference, uses
from treadle import Job, Stored, Treadle, migrate


@pytest.fixture
def handlers(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("TREADLE_DATABASE_URL", url)
    yield store_handlers
    store_handlers.app.close()


@pytest.mark.parametrize("kind", ["on_the_loop", "on_a_thread"])
def test_a_result_by_reference(handlers: Any, url: str, connection: Connection[Any], kind: str) -> None:
    app = handlers.app
    given = app.store(b"quiet")
    handle = getattr(handlers, kind).enqueue(given)
    (result,) = run_jobs(app, handle)
    assert uses(connection) == {(given.id, handle.id), (result.id, handle.id)}
    assert sweep(url) == 0
    assert app.read(result) == b"QUIET"
    connection.execute("delete from jobs")
    assert sweep(url) == 2


def test_a_result_by_reference_from_a_process_of_its_own(
    handlers: Any, url: str, connection: Connection[Any], tmp_path: Path
) -> None:
    app = handlers.app
    handle = handlers.in_a_process.enqueue(app.store(b"quiet"), tmp_path)
    ((result, given),) = run_jobs(app, handle)
    assert uses(connection) == {(given.id, handle.id), (result.id, handle.id)}
    assert (app.read(result), result.name) == (b"QUIET", "result")


def test_what_a_handler_stores_is_used_at_once(app: Treadle, url: str, connection: Connection[Any]) -> None:
    seen: list[int] = []

    @app.job
    def keep() -> None:
        app.store(b"kept, though nobody returns it")
        seen.append(sweep(url))

    handle = keep.enqueue()
    run_jobs(app, handle)
    assert seen == [0]
    assert {job for _, job in uses(connection)} == {handle.id}


def test_what_a_result_refers_to_is_used_also_if_it_came_from_elsewhere(
    app: Treadle, url: str, connection: Connection[Any]
) -> None:
    stored = app.store(b"elsewhere")
    lost = unknown_reference()

    @app.job
    def pass_on(lose: bool) -> list[Stored]:
        return [lost] if lose else [stored, stored]

    handles = [pass_on.enqueue(lose) for lose in (False, True)]
    assert run_jobs(app, *handles) == [[stored, stored], [lost]]  # a result is not refused: the work was done
    assert uses(connection) == {(stored.id, handles[0].id)}
    assert sweep(url) == 0


@pytest.mark.parametrize("twin", ["", "a"])
def test_a_result_that_is_committed_by_the_handler_uses_what_it_refers_to(
    app: Treadle, url: str, connection: Connection[Any], twin: str
) -> None:
    stored = app.store(b"elsewhere")

    @app.job
    def sync_end(job: Job) -> Stored | None:
        with job.transaction():
            job.complete(stored)
        return None

    @app.job
    async def async_end(job: Job) -> Stored | None:
        async with job.atransaction():
            job.complete(stored)
        return None

    handle = (async_end if twin else sync_end).enqueue()
    assert run_jobs(app, handle) == [stored]
    assert uses(connection) == {(stored.id, handle.id)}
    assert sweep(url) == 0


def test_what_another_application_stores_in_a_handler_is_not_used_by_a_job_that_is_not_there(
    app: Treadle, empty_url: str
) -> None:
    migrate(empty_url)
    other = Treadle(empty_url)

    @app.job
    def keep() -> Stored:
        return other.store(b"there")

    run_jobs(app, keep.enqueue())
    with psycopg.connect(empty_url, options="-c search_path=treadle") as there:
        assert (count_rows(there, "stored"), count_rows(there, "stored_uses")) == (1, 0)
    other.close()

"""Headers: named strings that are stored with a job; and the middleware around enqueues."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from psycopg import Connection

from tests.support.workers import SOON, auntil, run
from treadle import EnqueueCall, InvalidArgument, InvalidPayload, Job, Once, Retries, Stored, Treadle, Workflow
from treadle.worker.worker import Worker


def headers_of(connection: Connection[Any], *types: str) -> list[Any]:
    rows = connection.execute(
        "select headers from jobs where job_type = any (%s) order by id", [list(types or ("show",))]
    ).fetchall()
    return [row[0] for row in rows]


def add_trace(app: Treadle) -> list[EnqueueCall]:
    seen: list[EnqueueCall] = []

    @app.enqueue_middleware
    def trace(call: EnqueueCall) -> Iterator[None]:
        call.headers["trace"] = str(len(seen))
        seen.append(call)
        yield

    return seen


def test_headers_reach_the_handler_and_its_retries(app: Treadle) -> None:
    @app.job(retry=Retries(1, backoff=SOON))
    async def show(job: Job) -> dict[str, str]:
        if job.attempt == 1:
            raise ValueError("again")
        return job.headers

    @app.job
    def bare(job: Job) -> dict[str, str]:
        return job.headers

    async def body(_: Worker) -> None:
        given = {"tenant": "acme", "ümlaut": "\u2028 ☃", "escaped": r"\u0000"}
        assert await (await show.using(headers=given).aenqueue()).aresult(30) == given
        assert await (await bare.aenqueue()).aresult(30) == {}

    run(app, body)


def test_a_middleware_adds_headers_to_every_kind_of_enqueue(app: Treadle, connection: Connection[Any]) -> None:
    @app.job
    def show(n: int = 0) -> None: ...

    seen = add_trace(app)
    one = show.enqueue()
    show.using(headers={"trace": "mine", "tenant": "acme"}).enqueue()
    several = show.enqueue_many([{"n": 1}, {"n": 2}])
    show.using(unique=Once(), expires="1h").enqueue(n=3)
    asyncio.run(_enqueue_async(show))
    assert headers_of(connection) == [
        {"trace": "0"},
        {"trace": "1", "tenant": "acme"},
        {"trace": "2"},
        {"trace": "2"},
        {"trace": "3"},
        {"trace": "4"},
        {"trace": "5"},
    ]
    assert [call.job_type for call in seen] == ["show"] * 6
    assert seen[0].ids == [one.id]
    assert seen[2].ids == [each.id for each in several]


async def _enqueue_async(function: Any) -> None:
    await function.aenqueue()
    await function.aenqueue_many([{"n": 4}])
    await function.backend.database.aclose()


def test_a_middleware_adds_headers_to_all_jobs_of_a_workflow(app: Treadle, connection: Connection[Any]) -> None:
    @app.job
    def numbers() -> list[int]:
        return [1, 2]

    @app.job
    def show(n: int) -> int:
        if n == 2:
            raise ValueError("two")
        return n

    @app.job
    def undone() -> None: ...

    @app.job
    def told() -> None: ...

    seen = add_trace(app)
    flow = Workflow("numbers", on_complete=told.call())
    first = flow.add(numbers.call(), undo=undone.call())
    flow.map(show.using(retry=Retries(0), headers={"tenant": "acme"}).call(), first.output)
    handle = flow.enqueue()
    ended = "select count(*) from jobs where job_type <> 'workflow' and finished_at is not null"

    async def body(_: Worker) -> None:
        await auntil(lambda: connection.execute(ended).fetchone() == (5,))

    run(app, body)
    assert headers_of(connection, "numbers", "undone", "told") == [{"trace": "0"}] * 3
    assert headers_of(connection, "show") == [{"trace": "0", "tenant": "acme"}] * 2
    assert seen[0].job_type == "workflow"
    assert seen[0].ids[-1] == handle.id


def test_a_middleware_sees_an_error_of_the_enqueue_and_can_refuse_it(app: Treadle, connection: Connection[Any]) -> None:
    @app.job
    def show(n: int) -> None: ...

    errors: list[str] = []

    @app.enqueue_middleware
    def watching(call: EnqueueCall) -> Iterator[None]:
        try:
            yield
        except InvalidArgument as error:
            errors.append(str(error))
            raise

    @app.enqueue_middleware
    def refusing(call: EnqueueCall) -> Iterator[None]:
        if "tenant" not in call.headers:
            raise InvalidArgument("a tenant is needed")
        yield

    with pytest.raises(InvalidArgument, match="a tenant is needed"):
        show.enqueue(n=1)
    assert errors == ["a tenant is needed"]
    show.using(headers={"tenant": "acme"}).enqueue(n=1)
    assert headers_of(connection) == [{"tenant": "acme"}]


def test_a_middleware_cannot_hide_that_nothing_was_enqueued(app: Treadle) -> None:
    @app.job
    def show(n: int) -> None: ...

    @app.enqueue_middleware
    def hiding(call: EnqueueCall) -> Iterator[None]:
        with suppress(Exception):
            yield

    for enqueue in (lambda: show.enqueue(n="x"), lambda: show.enqueue_many([{"n": "x"}])):  # type: ignore[arg-type]
        with pytest.raises(InvalidPayload):
            enqueue()


def test_a_replaced_payload_brings_its_own_headers(app: Treadle, connection: Connection[Any]) -> None:
    @app.job
    def show(n: int) -> None: ...

    unique = show.using(unique=Once(key="only", on_conflict="replace"))
    unique.using(headers={"trace": "1"}).enqueue(n=1)
    unique.using(headers={"trace": "2"}).enqueue(n=2)
    assert headers_of(connection) == [{"trace": "2"}]


def test_jobs_with_stored_content_keep_their_headers(app: Treadle, connection: Connection[Any]) -> None:
    @app.job
    def show(content: Stored) -> None: ...

    content = app.store(b"content")
    show.using(headers={"trace": "1"}).enqueue(content=content)
    show.using(headers={"trace": "2"}).enqueue_many([{"content": content}])
    show.using(headers={"trace": "3"}, expires="1h").enqueue(content=content)
    assert headers_of(connection) == [{"trace": "1"}, {"trace": "2"}, {"trace": "3"}]


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        ({"n": 7}, "headers must map names to strings"),
        ({7: "n"}, "headers must map names to strings"),
        ("tenant", "headers must map names to strings"),
        ({"n": "\0"}, "without the character"),
        ({"n": "\ud800"}, "must be valid text"),
        ({"n": "x" * 9000}, "at most 8,192 bytes"),
    ],
)
def test_headers_that_cannot_be_stored_are_refused(app: Treadle, headers: Any, message: str) -> None:
    @app.job
    def show() -> None: ...

    for enqueue in (show.using(headers=headers).enqueue, lambda: show.using(headers=headers).enqueue_many([{}])):
        with pytest.raises(InvalidArgument, match=message):
            enqueue()
    with pytest.raises(InvalidArgument, match=message):
        Workflow("one").add(show.using(headers=headers).call()).workflow.enqueue()  # type: ignore[attr-defined]
    with pytest.raises(InvalidArgument, match=message):
        app.queue.enqueue("show", {}, headers=headers)


def test_headers_by_hand_and_through_sql(app: Treadle, connection: Connection[Any]) -> None:
    app.queue.enqueue("show", {}, headers={"trace": "1"})
    connection.execute("""select enqueue('show', '{}', p_headers => '{"trace": "2"}')""")
    connection.execute("""select enqueue_jobs('show', '{"{}"}', p_headers => '{"trace": "3"}')""")
    connection.execute("""select enqueue_with_options('show', '{"{}"}', '{"headers": {"trace": "4"}}')""")
    assert [each and each["trace"] for each in headers_of(connection)] == ["1", "2", "3", "4"]
    job = app.queue.claim(["show"])[0]
    assert job.headers == {"trace": "1"}
    for call in (
        "enqueue('show', p_headers => %s)",
        """enqueue_jobs('show', '{"{}"}', p_headers => %s)""",
        """enqueue_with_options('show', '{"{}"}', jsonb_build_object('headers', %s::jsonb))""",
    ):
        for wrong, got in (("[]", "array"), (json.dumps({"n": "x" * 9000}), "object of 90")):
            with pytest.raises(Exception, match=f"p_headers must be an object of at most 8192 bytes, got {got}"):
                connection.execute(f"select {call}".encode(), [wrong])


def test_a_job_whose_headers_were_written_by_other_means_runs(app: Treadle, connection: Connection[Any]) -> None:
    @app.job
    async def show(job: Job) -> dict[str, str]:
        return job.headers

    handles = show.enqueue_many([{}, {}, {}])
    for handle, text in zip(handles, ('["a"]', '{"a": 1, "b": "c"}', f'{{"n": {"7" * 5000}}}'), strict=True):
        connection.execute("update jobs set headers = %s where id = %s", [text, handle.id])

    async def body(_: Worker) -> None:
        assert await handles[0].aresult(30) == {}
        assert await handles[1].aresult(30) == {"b": "c"}
        assert await handles[2].aresult(30) == {}

    run(app, body)

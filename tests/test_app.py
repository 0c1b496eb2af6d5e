"""Treadle and @app.job: functions that stay functions, payloads that are their arguments, handles that wait."""

import asyncio
import importlib.util
import inspect
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeVar
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg import Connection
from pydantic import BaseModel, ConfigDict

from treadle import (
    Backoff,
    DatabaseUnreachable,
    Handle,
    InvalidArgument,
    InvalidJob,
    InvalidPayload,
    Job,
    JobCancelled,
    JobFailed,
    JobNotFound,
    JobQueue,
    Priority,
    Status,
    Treadle,
    TreadleError,
    UnknownJobType,
    current_job,
    migrate,
)
from treadle.app import ends
from treadle.app.function import Enqueuer
from treadle.words.size import size

T = TypeVar("T")
NOWHERE = "postgresql://ada:secret@127.0.0.1:1/app"


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Point:
    x: int
    y: float


class Pair(NamedTuple):
    left: int
    right: date


class Order(BaseModel):
    id: UUID
    points: list[Point]
    placed_at: datetime
    colour: Colour = Colour.RED


class Strict(BaseModel):
    model_config = ConfigDict(strict=True)
    moment: datetime
    colour: Colour


class Opaque:
    """Nothing that can be JSON."""


def heavy() -> None:
    """At the top of a module, so that another process can find it."""


@pytest.fixture
def app(url: str) -> Iterator[Treadle]:
    app = Treadle(url)
    yield app
    app.close()


@pytest.fixture
def orders(connection: Connection[Any]) -> Iterator[Callable[[], int]]:
    """A table of the caller's; called, how many rows it has."""
    connection.execute("create table public.orders (id int)")
    yield lambda: len(connection.execute("select from public.orders").fetchall())
    connection.execute("drop table public.orders")


def run(app: Treadle, main: Coroutine[Any, Any, T]) -> T:
    async def closing() -> T:
        try:
            return await main
        finally:
            await app.aclose()

    return asyncio.run(closing())


def work(app: Treadle, *handles: Handle[Any]) -> list[Any]:
    """The results of these jobs, run by a worker."""

    async def results() -> list[Any]:
        async with app.worker():
            return [await handle.aresult(timeout=30) for handle in handles]

    return run(app, results())


def complete(queue: JobQueue, job_type: str, result: Any = None) -> None:
    """Do the worker's part by hand."""
    (job,) = queue.claim([job_type])
    queue.complete(job, result)


def pending(queue: JobQueue) -> int:
    return queue.counts()[Status.PENDING]


# The function


def test_the_function_stays_an_ordinary_function() -> None:
    app = Treadle(NOWHERE)

    @app.job
    def add(one: int, two: int = 2) -> int:
        """Adds."""
        return one + two

    @app.job(queue="sums")
    async def aadd(one: int, two: int = 2, job: Job | None = None) -> int:
        return one + two if job is None else 0

    assert (add(1), add(1, two=3), add(one=1, two=1)) == (3, 4, 2)
    assert asyncio.run(aadd(1)) == 3
    described: Any = add
    assert (described.__name__, described.__doc__, described.__module__) == ("add", "Adds.", __name__)
    assert str(inspect.signature(add)) == "(one: int, two: int = 2) -> int"
    assert (add.name, aadd.name, repr(add)) == ("add", "aadd", "<job add>")


def test_what_a_called_function_raises_comes_through() -> None:
    app = Treadle(NOWHERE)

    @app.job
    def divide(one: int) -> float:
        return one / 0

    with pytest.raises(ZeroDivisionError):
        divide(1)


def test_nothing_connects_before_something_is_enqueued() -> None:
    app = Treadle(NOWHERE)

    @app.job
    def add(one: int) -> int:
        return one

    add.using(priority=1)
    app.close()
    with pytest.raises(DatabaseUnreachable, match=r"127\.0\.0\.1:1/app"):
        add.enqueue(1)


def test_the_database_may_be_named_by_the_environment(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    app = Treadle()
    add = app.job(name="add")(lambda: 1)
    monkeypatch.setenv("TREADLE_DATABASE_URL", url)
    assert add.enqueue().status() == Status.PENDING
    app.close()


def test_two_functions_of_one_name_are_refused() -> None:
    app = Treadle(NOWHERE)

    @app.job(aliases=["sum"])
    def add() -> None: ...

    for name in ("add", "sum"):
        with pytest.raises(InvalidJob, match=f"two job functions called '{name}'"):
            app.job(name=name)(lambda: None)
    with pytest.raises(InvalidJob, match="two job functions called 'sum'"):
        app.job(name="plus", aliases=["sum"])(lambda: None)
    assert app.job_types == ["add", "sum"]
    assert app.function("sum") is app.function("add") is add
    with pytest.raises(UnknownJobType, match="no job type 'plus'; known are: add, sum"):
        app.function("plus")


def test_a_job_enqueued_under_an_old_name_is_run_by_the_renamed_function(app: Treadle, queue: JobQueue) -> None:
    old = app.handle(queue.enqueue("welcome", {"user_id": 7}))

    @app.job(name="greet", aliases=["welcome", "hello"])
    def greet_somebody(user_id: int, job: Job) -> str:
        return f"{job.type} {user_id}"

    new = greet_somebody.enqueue(user_id=8)  # type: ignore[call-arg]
    assert new.job().job_type == "greet"
    assert work(app, old, new) == ["welcome 7", "greet 8"]


def test_what_is_no_job_function_is_refused() -> None:
    app = Treadle(NOWHERE)
    refused: list[tuple[Any, str]] = [
        (7, "a job is a function, got 7"),
        (app.job(name="once")(lambda: None), "once is a job already"),
        (lambda *args: None, r"\*parameter, args: a payload is a set of named values"),
        (lambda one, /: None, "positional-only parameter, one"),
        (lambda: (yield), "is a generator"),
    ]
    for function, problem in refused:
        with pytest.raises(InvalidJob, match=problem):
            app.job(function)
    assert app.job_types == ["once"]


def test_a_method_is_refused_when_it_is_used_as_one() -> None:
    app = Treadle(NOWHERE)

    class Service:
        @app.job
        def send(self, user_id: int) -> None: ...

        @app.job
        @staticmethod
        def count(user_id: int) -> int:
            return user_id

    with pytest.raises(InvalidJob, match="send is a method"):
        Service().send  # noqa: B018 - looking is enough
    assert Service.count(3) == 3


def test_attributes_of_the_function_do_not_become_those_of_the_job() -> None:
    app = Treadle(NOWHERE)

    def add() -> None: ...

    add.name = add.app = "mine"  # type: ignore[attr-defined]
    job = app.job(add)
    assert (job.name, job.app) == ("add", app)


# Payloads


def test_arguments_are_checked_when_enqueued(app: Treadle, queue: JobQueue) -> None:
    @app.job
    def welcome(user_id: int, tags: list[str] = []) -> None: ...  # noqa: B006 - never changed

    enqueue: Any = welcome.enqueue
    for args, named, problem in (
        (("seven",), {}, "welcome.user_id: Input should be a valid integer.*, got 'seven'"),
        ((7.5,), {}, r"welcome.user_id: .*got 7\.5"),
        ((None,), {}, "welcome.user_id: .*got None"),
        ((7, ["a", 1]), {}, r"welcome.tags\[1\]: Input should be a valid string, got 1"),
        ((), {}, "missing a required argument: 'user_id'; it takes .user_id: int, tags: "),
        ((7,), {"colour": "red"}, "unexpected keyword argument 'colour'"),
        ((7, [], 3), {}, "too many positional arguments"),
        ((7,), {"user_id": 8}, "multiple values for argument 'user_id'"),
        (("seven",), {"tags": 1}, r"welcome.user_id: .* \(and 1 more\)"),
    ):
        with pytest.raises(InvalidPayload, match=problem):
            enqueue(*args, **named)
    assert pending(queue) == 0
    assert welcome.enqueue(7).job().data == {"user_id": 7}
    assert enqueue("7", tags=("a",)).job().data == {"user_id": 7, "tags": ["a"]}


def test_a_long_value_is_shortened_in_the_error(app: Treadle) -> None:
    @app.job
    def welcome(user_id: int) -> None: ...

    with pytest.raises(InvalidPayload) as refused:
        welcome.enqueue("x" * 10_000)  # type: ignore[arg-type]
    assert len(str(refused.value)) < 400


def test_the_size_of_a_payload_is_limited(url: str) -> None:
    app = Treadle(url, payload_limit=100)
    echo = app.job(name="echo")(lambda text: None)
    with pytest.raises(InvalidPayload, match="more than the limit of 100"):
        echo.enqueue("x" * 100)
    echo.enqueue("x" * 80)
    app.close()


def test_arguments_round_trip_into_the_handler_and_out_of_it(app: Treadle) -> None:
    given: dict[str, Any] = {
        "order": Order(id=uuid4(), points=[Point(1, 0.5)], placed_at=datetime.now(UTC), colour=Colour.BLUE),
        "point": Point(3, 1e300),
        "moment": datetime(2026, 3, 29, 2, 30, 0, 123456, tzinfo=timezone(timedelta(hours=5, minutes=30))),
        "naive": datetime(1999, 12, 31, 23, 59, 59, 999999),
        "day": date(2024, 2, 29),
        "span": timedelta(days=-3, microseconds=1),
        "number": UUID(int=7),
        "amount": Decimal("12345678901234567890.10"),
        "colour": Colour.RED,
        "pair": Pair(1, date(1970, 1, 1)),
        "both": (1, "two"),
        "sizes": {1, 2, 3},
        "by_day": {date(2024, 1, 1): Decimal("0.1")},
        "either": None,
        "anything": {"a": [1, None, True, 2.5, "ü"]},
    }
    seen: list[dict[str, Any]] = []

    @app.job
    def everything(
        order: Order,
        point: Point,
        moment: datetime,
        naive: datetime,
        day: date,
        span: timedelta,
        number: UUID,
        amount: Decimal,
        colour: Colour,
        pair: Pair,
        both: tuple[int, str],
        sizes: set[int],
        by_day: dict[date, Decimal],
        either: int | None,
        anything: Any,
    ) -> tuple[Order, Point, datetime, date, timedelta, UUID, Decimal, Colour, Pair, set[int], dict[date, Decimal]]:
        seen.append(dict(locals()))
        return order, point, moment, day, span, number, amount, colour, pair, sizes, by_day

    (result,) = work(app, everything.enqueue(**given))
    (arrived,) = seen
    del arrived["seen"]
    assert arrived == given
    assert {name: type(value) for name, value in arrived.items()} == {k: type(v) for k, v in given.items()}
    assert arrived["moment"].utcoffset() == given["moment"].utcoffset()
    assert str(arrived["amount"]) == "12345678901234567890.10"
    left_out = {"naive", "both", "either", "anything"}
    assert result == tuple(value for name, value in given.items() if name not in left_out)


def test_a_payload_that_does_not_fit_any_more_fails_its_job(app: Treadle, queue: JobQueue) -> None:
    """Enqueued by an older version of the program, or from SQL: checked again when run."""

    @app.job(max_attempts=1)
    def welcome(user_id: int) -> None: ...

    handle = app.handle(queue.enqueue("welcome", {"user": 7}, max_attempts=1))
    with pytest.raises(JobFailed, match=r"welcome.user_id: Field required"):
        work(app, handle)


def test_open_ended_options_reach_the_handler(app: Treadle) -> None:
    @app.job
    def render(path: str, **options: Any) -> dict[str, Any]:
        return {"path": path, **options}

    @app.job
    def only(**options: int) -> int:
        return sum(options.values())

    first = render.enqueue("a.png", width=3, options={"x": 1})
    assert first.job().data == {"path": "a.png", "width": 3, "options": {"x": 1}}
    many = render.enqueue_many([{"path": "b.png", "height": 4}])
    assert work(app, first, *many, only.enqueue(a=1, b=2), only.enqueue()) == [
        {"path": "a.png", "width": 3, "options": {"x": 1}},
        {"path": "b.png", "height": 4},
        3,
        0,
    ]


def test_open_ended_options_are_checked_by_their_annotation(app: Treadle) -> None:
    @app.job
    def remind(**days: date) -> None: ...

    data = remind.enqueue(first=date(2024, 2, 29)).job().data
    assert data == {"first": "2024-02-29"}
    assert remind.arguments.load('{"first": "2024-02-29"}') == {"first": date(2024, 2, 29)}
    with pytest.raises(InvalidPayload, match="first"):
        remind.enqueue(first="tomorrow")  # type: ignore[arg-type]


def test_an_option_that_is_named_like_the_job_is_refused(app: Treadle) -> None:
    @app.job
    def render(job: Job, **options: Any) -> None: ...

    enqueue: Any = render.enqueue
    with pytest.raises(InvalidPayload, match="job"):
        enqueue(job="cleaning")


def test_an_option_may_have_any_name(app: Treadle) -> None:
    @app.job
    def render(**options: Any) -> None: ...

    enqueue: Any = render.enqueue
    assert enqueue(self=1, json=2).job().data == {"self": 1, "json": 2}


def test_what_json_cannot_hold_is_refused_with_its_place(app: Treadle, queue: JobQueue) -> None:
    @app.job
    def remember(value: dict[str, list[float | str]]) -> None: ...

    for value, problem in ((float("nan"), "nan is not a JSON number"), ("a\x00", "a NUL character")):
        with pytest.raises(InvalidPayload, match=rf"value\.x\[0\]: {problem}"):
            remember.enqueue(value={"x": [value]})
    assert pending(queue) == 0


@pytest.mark.parametrize(
    "value", [b"\xff", Opaque(), float("nan"), [float("inf")]], ids=["bytes", "object", "nan", "inf"]
)
def test_what_json_cannot_hold_is_refused_without_an_annotation_too(
    app: Treadle, queue: JobQueue, value: object
) -> None:
    @app.job
    def remember(value: Any) -> None: ...

    with pytest.raises(InvalidPayload, match="value"):
        remember.enqueue(value=value)


# The job parameter


def test_the_job_is_handed_in_where_it_is_asked_for(app: Treadle) -> None:
    @app.job
    async def first(job: Job, n: int) -> str:
        return f"{job.type} {n}"

    @app.job
    def last(n: int, job: Job) -> str:
        return f"{job.type} {n}"

    @app.job
    def optional(n: int, job: Job | None = None) -> str | None:
        return f"{job.type} {n}" if job else None

    @app.job
    async def named(*, current: "Job", n: int = 4) -> str:
        return f"{current.type} {n}"

    @app.job
    def below(n: int) -> str:
        return f"{current_job().type} {n}"

    handles: list[Handle[Any]] = [
        first.enqueue(1),
        last.enqueue(n=2),  # type: ignore[call-arg]
        optional.enqueue(3),
        named.enqueue(),  # type: ignore[call-arg]
        below.enqueue(n=5),
    ]
    assert [handle.job().data for handle in handles] == [{"n": 1}, {"n": 2}, {"n": 3}, {}, {"n": 5}]
    assert work(app, *handles) == ["first 1", "last 2", "optional 3", "named 4", "below 5"]
    assert optional(3) is None
    with pytest.raises(LookupError):
        current_job()


def test_the_job_cannot_be_given_by_the_caller(app: Treadle) -> None:
    @app.job
    def optional(n: int, job: Job | None = None) -> None: ...

    with pytest.raises(InvalidPayload, match=r"unexpected keyword argument 'job'; it takes \(n: int\)"):
        optional.enqueue(1, job=None)
    with pytest.raises(InvalidPayload, match=r"\[0\].*job"):
        optional.enqueue_many([{"n": 1, "job": None}])


def test_the_job_is_asked_for_once(app: Treadle) -> None:
    @app.job
    def twice(one: Job, two: Job | None) -> None: ...

    with pytest.raises(InvalidJob, match="asks for the job more than once: one, two"):
        twice.enqueue(None)


def test_the_job_may_be_annotated_with_more(app: Treadle) -> None:
    @app.job
    def send(n: int, job: Annotated[Job, "the running one"]) -> None: ...

    assert send.arguments.job_parameter == "job"


def test_annotations_may_be_strings_that_name_what_is_defined_later(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "warehouse.py"
    path.write_text("""
from __future__ import annotations
from dataclasses import dataclass
from treadle import Job, Treadle

app = Treadle()

@app.job
async def ship(parcel: Parcel, job: Job | None = None) -> Parcel:
    assert job is not None
    return Parcel(parcel.weight + 1, parcel.inner)

@dataclass
class Parcel:
    weight: int
    inner: Parcel | None = None
""")
    spec = importlib.util.spec_from_file_location("warehouse", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "warehouse", module)
    monkeypatch.setenv("TREADLE_DATABASE_URL", url)
    spec.loader.exec_module(module)
    parcel = module.Parcel(1, module.Parcel(2))
    handle = module.ship.enqueue(parcel)
    assert handle.job().data == {"parcel": {"weight": 1, "inner": {"weight": 2, "inner": None}}}
    assert work(module.app, handle) == [module.Parcel(2, module.Parcel(2))]
    with pytest.raises(InvalidPayload, match=r"ship.parcel.inner.weight: .*got 'x'"):
        module.ship.enqueue({"weight": 1, "inner": {"weight": "x"}})


@pytest.mark.parametrize(
    "annotation",
    [
        "Nowhere",
        *(text for text in ("asyncio.Nowhere", "int |", "Point | 7")),
    ],
)
def test_annotations_that_cannot_be_read_are_refused(app: Treadle, queue: JobQueue, annotation: str) -> None:
    def broken(one: Any) -> None: ...

    broken.__annotations__["one"] = annotation
    job = app.job(broken)
    with pytest.raises(InvalidJob, match=r"the annotations of .*broken cannot be read: .*"):
        job.enqueue(one=1)
    with pytest.raises(InvalidJob, match="broken"):
        work(app)
    assert pending(queue) == 0


def test_an_annotation_that_cannot_be_a_payload_is_refused(app: Treadle, queue: JobQueue) -> None:
    @app.job
    def remember(value: Opaque) -> None: ...

    with pytest.raises(InvalidJob, match=r"remember has an annotation that cannot be a payload: .*Opaque"):
        remember.enqueue(Opaque())
    assert pending(queue) == 0


def test_a_return_annotation_that_cannot_be_a_result_is_refused_before_anything_is_enqueued(
    app: Treadle, queue: JobQueue
) -> None:
    @app.job
    def remember() -> Opaque:
        return Opaque()

    with pytest.raises(InvalidJob, match="remember has an annotation that cannot be a"):
        remember.enqueue()
    assert pending(queue) == 0


# Options


def test_the_defaults_of_the_decorator_reach_the_row(app: Treadle) -> None:
    @app.job
    def plain() -> None: ...

    @app.job(name="imports", priority=Priority.BACKFILL, queue="slow", max_attempts=5)
    def import_rows() -> None: ...

    row = plain.enqueue().job()
    assert (row.job_type, row.priority, row.queue, row.max_attempts, row.key) == ("plain", 100, "default", 3, None)
    row = import_rows.enqueue().job()
    assert (row.job_type, row.priority, row.queue, row.max_attempts) == ("imports", 30, "slow", 5)
    assert [handle.job().queue for handle in import_rows.enqueue_many([{}, {}])] == ["slow", "slow"]


def test_options_for_one_job(app: Treadle) -> None:
    @app.job(priority=5, max_attempts=2)
    def welcome(user_id: int) -> None: ...

    moment = datetime(2100, 1, 1, tzinfo=UTC)
    row = welcome.using(priority=Priority.EXPLICIT, queue="mail", run_at=moment, key="user:7").enqueue(7).job()
    assert (row.priority, row.queue, row.run_at, row.key) == (150, "mail", moment, "user:7")
    assert row.max_attempts == 2
    row = welcome.using(delay="10m", priority=1).using(priority=2, max_attempts=9).enqueue(7).job()
    assert (row.priority, row.max_attempts) == (2, 9)
    assert timedelta(minutes=9) < row.run_at - row.created_at <= timedelta(minutes=10)
    row = welcome.enqueue(7).job()
    assert (row.priority, row.queue, row.max_attempts, row.key) == (5, "default", 2, None)
    assert row.run_at <= row.created_at


def test_wrong_options_are_refused_when_enqueued(app: Treadle, queue: JobQueue) -> None:
    @app.job
    def welcome(user_id: int) -> None: ...

    moment = datetime(2100, 1, 1, tzinfo=UTC)
    wrong: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"priority": "high"}, InvalidArgument, "priority must be an integer"),
        ({"max_attempts": 0}, InvalidArgument, "max_attempts must be an integer from 1"),
        ({"delay": "soon"}, InvalidArgument, "delay must be a timedelta, seconds, or a text"),
        ({"delay": 1, "run_at": moment}, InvalidArgument, "either run_at or delay, not both"),
        ({"queue": ""}, InvalidArgument, "queue must be a text of 1 to 50 characters"),
        ({"key": "k" * 201}, InvalidArgument, "key must be a text of 1 to 200 characters"),
        ({"connection": 7}, InvalidArgument, "a URL or a psycopg connection or pool, got int"),
        ({"colour": "red"}, TypeError, "unexpected keyword argument 'colour'"),
    ]
    for options, kind, problem in wrong:
        with pytest.raises(kind, match=problem):
            welcome.using(**options).enqueue(7)
    assert pending(queue) == 0


def test_jobs_commit_and_roll_back_with_the_callers_rows(
    app: Treadle, queue: JobQueue, url: str, orders: Callable[[], int]
) -> None:
    @app.job
    def ship(order_id: int) -> None: ...

    with psycopg.connect(url) as connection:
        mine = ship.using(connection=connection)
        connection.execute("insert into public.orders values (1)")
        lost = [mine.enqueue(1), *mine.using(key="k").enqueue_many([{"order_id": 1}] * 2)]
        with pytest.raises(JobNotFound):
            lost[0].status()
        connection.rollback()
        assert (orders(), pending(queue)) == (0, 0)

        connection.execute("insert into public.orders values (2)")
        kept = mine.enqueue(2)
        with pytest.raises(InvalidPayload):
            mine.enqueue("two")  # type: ignore[arg-type]
        connection.commit()
        assert (orders(), pending(queue)) == (1, 1)
        assert kept.status() == Status.PENDING

        with pytest.raises(InvalidArgument, match="sync connection"):
            asyncio.run(mine.aenqueue(3))


def test_jobs_commit_and_roll_back_with_the_callers_rows_asynchronously(
    app: Treadle, queue: JobQueue, url: str, orders: Callable[[], int]
) -> None:
    @app.job
    async def ship(order_id: int) -> None: ...

    async def main() -> None:
        async with await psycopg.AsyncConnection.connect(url) as connection:
            mine = ship.using(connection=connection)
            await connection.execute("insert into public.orders values (1)")
            await mine.aenqueue(1)
            await mine.aenqueue_many([{"order_id": 1}] * 2)
            await connection.rollback()
            assert (orders(), pending(queue)) == (0, 0)

            async with connection.transaction():
                await connection.execute("insert into public.orders values (2)")
                kept = await mine.aenqueue(2)
            assert (orders(), pending(queue)) == (1, 1)
            assert await kept.astatus() == Status.PENDING

            with pytest.raises(InvalidArgument, match="async connection"):
                mine.enqueue(3)

    run(app, main())


# Many at once


def test_many_are_enqueued_in_order(app: Treadle, queue: JobQueue) -> None:
    @app.job
    def welcome(user_id: int, on: date | None = None) -> None: ...

    handles = welcome.using(priority=7).enqueue_many({"user_id": n} for n in range(5_100))
    assert len(handles) == 5_100
    claimed = queue.claim(["welcome"], 5_100)
    assert [job.id for job in claimed] == [handle.id for handle in handles]
    assert [job.data for job in claimed] == [{"user_id": n} for n in range(5_100)]
    assert {job.priority for job in claimed} == {7}
    (dated,) = welcome.enqueue_many([{"user_id": 1, "on": date(2024, 1, 1)}])
    assert dated.job().data == {"user_id": 1, "on": "2024-01-01"}
    keyed = welcome.enqueue_many([{"user_id": 1}, {"user_id": 2}], keys=["a", None])
    assert [handle.job().key for handle in keyed] == ["a", None]
    assert welcome.enqueue_many([]) == []


def test_one_bad_one_of_many_enqueues_nothing_and_is_named(app: Treadle, queue: JobQueue) -> None:
    @app.job
    def welcome(user_id: int, note: float = 0.0) -> None: ...

    good = {"user_id": 1}
    bad: list[tuple[Any, str]] = [
        ({"user_id": "two"}, r"user_id: .*got 'two'"),
        ({}, "user_id: Field required"),
        ({"user_id": 2, "colour": "red"}, "colour"),
        ({"user_id": 2, "note": float("inf")}, "note: inf is not a JSON number"),
        (7, "valid dictionary, got 7"),
    ]
    for call, problem in bad:
        with pytest.raises(InvalidPayload, match=rf"\[2\].*{problem}"):
            welcome.enqueue_many([good, good, call, good])
        with pytest.raises(InvalidPayload, match=rf"\[2\].*{problem}"):
            run(app, welcome.aenqueue_many([good, good, call, good]))
    with pytest.raises(InvalidArgument, match="one element per job, got 1 for 2 jobs"):
        welcome.enqueue_many([good, good], keys=["a"])
    assert pending(queue) == 0


def test_many_under_one_key(app: Treadle) -> None:
    @app.job
    def welcome(user_id: int) -> None: ...

    handles = welcome.using(key="user:7").enqueue_many([{"user_id": 7}] * 2)
    assert [handle.job().key for handle in handles] == ["user:7", "user:7"]


# Handles


def test_a_handle_from_beginning_to_end(app: Treadle, queue: JobQueue) -> None:
    @app.job
    def count(path: str) -> int:
        return 0

    handle = count.enqueue("a")
    assert (handle.status(), handle.progress(), handle.errors()) == (Status.PENDING, (0, None), [])
    (job,) = queue.claim(["count"])
    queue.fail(job, ValueError("unreadable"), delay=0)
    (job,) = queue.claim(["count"])
    queue.start(job)
    queue.progress(job, 40, "counting")
    assert (handle.status(), handle.progress()) == (Status.RUNNING, (40, "counting"))
    assert (handle.progress().percent, handle.progress().stage) == (40, "counting")
    queue.complete(job, 12)
    assert (handle.status(), handle.result(), handle.progress().percent) == (Status.COMPLETED, 12, 100)
    (error,) = handle.errors()
    assert (error.attempt, error.error, error.worker_id) == (1, "ValueError: unreadable", "worker-1")
    assert app.handle(handle.id).result() == app.handle(str(handle.id)).result() == 12


def test_the_same_asynchronously(app: Treadle) -> None:
    @app.job
    async def count(path: str) -> int:
        return 0

    async def main() -> None:
        handle = await count.aenqueue("a")
        assert (await handle.astatus(), await handle.aprogress()) == (Status.PENDING, (0, None))
        (job,) = await app.queue.aclaim(["count"])
        await app.queue.afail(job, "unreadable", delay=0)
        (job,) = await app.queue.aclaim(["count"])
        await app.queue.astart(job)
        await app.queue.aprogress(job, 40, "counting")
        assert (await handle.astatus(), await handle.aprogress()) == (Status.RUNNING, (40, "counting"))
        await app.queue.acomplete(job, 12)
        assert ((await handle.ajob()).status, await handle.aresult()) == (Status.COMPLETED, 12)
        assert [error.error for error in await handle.aerrors()] == ["unreadable"]
        one, two = await count.using(key="k").aenqueue_many([{"path": "a"}, {"path": "b"}], keys=["x", "y"])
        await one.acancel("not wanted")
        with pytest.raises(JobCancelled, match="not wanted"):
            await one.aresult()
        with pytest.raises(TimeoutError):
            await two.aresult(timeout=0)
        with pytest.raises(JobNotFound):
            await app.handle(uuid4()).aresult()

    run(app, main())


@pytest.mark.parametrize("kind", [Handle, Enqueuer])
def test_every_method_that_asks_the_database_has_an_async_twin(kind: type) -> None:
    methods = {name: value for name, value in vars(kind).items() if inspect.isfunction(value) and name[0] != "_"}
    methods.pop("using", None)
    for name in [name for name in methods if f"a{name}" in methods]:
        assert inspect.signature(methods.pop(name)) == inspect.signature(methods[f"a{name}"])
        assert inspect.iscoroutinefunction(methods.pop(f"a{name}"))
    assert methods == {}


def test_a_result_is_what_the_function_says_it_returns(app: Treadle, queue: JobQueue) -> None:
    results: list[tuple[Any, Any, Any]] = [
        (date, "2024-02-29", date(2024, 2, 29)),
        (list[Point], [{"x": 1, "y": 2}], [Point(1, 2.0)]),
        (dict[UUID, Decimal], {str(UUID(int=1)): "0.10"}, {UUID(int=1): Decimal("0.10")}),
        (Colour | None, "blue", Colour.BLUE),
        (Colour | None, None, None),
        (Pair, [1, "2024-02-29"], Pair(1, date(2024, 2, 29))),
        (Literal["a", "b"], "a", "a"),
        (timedelta, "PT1M", timedelta(minutes=1)),
        (Any, {"when": "2024-02-29"}, {"when": "2024-02-29"}),
        (None, None, None),
        (inspect.Signature.empty, [1, "x"], [1, "x"]),
    ]
    for nth, (annotation, stored, result) in enumerate(results):

        def made() -> None: ...

        made.__annotations__ = {} if annotation is inspect.Signature.empty else {"return": annotation}
        handle: Handle[Any] = app.job(name=f"made-{nth}")(made).enqueue()
        complete(queue, f"made-{nth}", stored)
        assert handle.result() == result
        assert type(handle.result()) is type(result)
        assert app.handle(handle.id).result() == stored


def test_a_result_of_a_strict_model(app: Treadle, queue: JobQueue) -> None:
    given = Strict(moment=datetime(2024, 2, 29, tzinfo=UTC), colour=Colour.BLUE)

    @app.job
    def echo(value: Strict) -> Strict:
        return value

    handle = echo.enqueue(given)
    complete(queue, "echo", handle.job().data["value"])
    assert handle.result() == given


def test_a_result_that_does_not_fit_the_function_is_an_error_of_treadle(app: Treadle, queue: JobQueue) -> None:
    """Written by an older version of the program, or by hand."""

    @app.job
    def count() -> int:
        return 0

    handle = count.enqueue()
    complete(queue, "count", {"rows": 7})
    with pytest.raises(TreadleError):
        handle.result()


def test_a_failed_job_has_no_result(app: Treadle, queue: JobQueue) -> None:
    @app.job
    def count() -> int:
        return 0

    handle = count.enqueue()
    (job,) = queue.claim(["count"])
    queue.fail(job, ValueError("unreadable"), final=True)
    with pytest.raises(JobFailed, match=rf"job {handle.id} failed: ValueError: unreadable") as failed:
        handle.result()
    assert (failed.value.job_id, failed.value.error) == (handle.id, "ValueError: unreadable")


def test_a_cancelled_job_has_no_result(app: Treadle, queue: JobQueue) -> None:
    @app.job
    def count() -> int:
        return 0

    for reason in ("not wanted", None):
        handle = count.enqueue()
        handle.cancel(reason)
        assert handle.status() == Status.CANCELLED
        assert queue.claim(["count"]) == []
        with pytest.raises(JobCancelled, match=rf"job {handle.id} was cancelled") as cancelled:
            handle.result()
        assert (cancelled.value.job_id, cancelled.value.reason) == (handle.id, reason)


def test_a_job_that_is_not_there_has_no_result(app: Treadle, queue: JobQueue, connection: Connection[Any]) -> None:
    missing = uuid4()
    handle = app.handle(missing)
    for ask in (handle.result, handle.status, handle.progress, handle.cancel, handle.job):
        with pytest.raises(JobNotFound, match=f"there is no job {missing}"):
            ask()
    waiting = app.handle(queue.enqueue("count"))
    with ThreadPoolExecutor(1) as pool:
        result = pool.submit(waiting.result, 30)
        connection.execute("delete from jobs")
        with pytest.raises(JobNotFound):
            result.result()


def test_waiting_for_a_result_ends_at_the_timeout(app: Treadle) -> None:
    @app.job
    def count() -> int:
        return 0

    handle = count.enqueue()
    for timeout in (0, "50ms", timedelta(milliseconds=50)):
        with pytest.raises(TimeoutError, match=rf"job {handle.id} has not ended within {timeout}"):
            handle.result(timeout)
        with pytest.raises(TimeoutError, match=rf"job {handle.id} has not ended within {timeout}"):
            run(app, handle.aresult(timeout))
    with pytest.raises(InvalidArgument, match="timeout must not be negative"):
        handle.result(-1)


@pytest.mark.parametrize("ending", ["complete", "complete_many", "fail", "cancel"])
def test_a_result_is_woken_not_polled(
    app: Treadle, queue: JobQueue, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    monkeypatch.setattr(ends, "LOOK_SECONDS", 60.0)

    @app.job
    def count() -> int:
        return 0

    let_the_first_looks_pass(app, queue)
    handle = count.enqueue()
    (job,) = queue.claim(["count"])
    end: dict[str, Callable[[], object]] = {
        "complete": lambda: queue.complete(job, 7),
        "complete_many": lambda: queue.complete_many([job], [7]),
        "fail": lambda: queue.fail(job, "unreadable", final=True),
        "cancel": lambda: queue.cancel(job),
    }
    timer = threading.Timer(0.3, end[ending])
    timer.start()
    try:
        assert handle.result(timeout=10) == 7
    except (JobFailed, JobCancelled):
        assert ending in ("fail", "cancel")
    timer.join()


def test_a_result_is_woken_by_a_worker_and_asynchronously(
    app: Treadle, queue: JobQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ends, "LOOK_SECONDS", 60.0)

    @app.job(max_attempts=1)
    async def count(fails: bool) -> int:
        await asyncio.sleep(0.3)
        if fails:
            raise ValueError("unreadable")
        return 7

    let_the_first_looks_pass(app, queue)

    async def main() -> None:
        async with app.worker():
            good, bad = await count.aenqueue(fails=False), await count.aenqueue(fails=True)
            assert await good.aresult(timeout=10) == 7
            with pytest.raises(JobFailed, match="ValueError: unreadable"):
                await bad.aresult(timeout=10)

    run(app, main())


def let_the_first_looks_pass(app: Treadle, queue: JobQueue) -> None:
    """A new listener looks three times in its first tenth of a second: what ends then need not wake anybody."""
    ended = app.handle(queue.enqueue("ended"))
    complete(queue, "ended")
    ended.result()


def test_a_retried_job_is_waited_for_until_its_real_end(app: Treadle, queue: JobQueue) -> None:
    @app.job(max_attempts=2)
    def count() -> int:
        return 0

    handle = count.enqueue()
    with ThreadPoolExecutor(1) as pool:
        result = pool.submit(handle.result, 30)
        (job,) = queue.claim(["count"])
        queue.fail(job, "unreadable", delay=0)
        with pytest.raises(TimeoutError):
            handle.result(timeout=0)
        (job,) = queue.claim(["count"])
        queue.release(job)
        with pytest.raises(TimeoutError):
            handle.result(timeout=0)
        (job,) = queue.claim(["count"])
        queue.complete(job, 7)
        assert result.result() == 7


def test_all_who_wait_share_one_thread(app: Treadle, queue: JobQueue) -> None:
    @app.job
    def count(n: int) -> int:
        return n

    def listeners() -> set[threading.Thread]:
        return {thread for thread in threading.enumerate() if thread.name == "treadle-ends"}

    before = listeners()
    handles = count.enqueue_many([{"n": n} for n in range(10)])
    claimed = queue.claim(["count"], 10)
    with ThreadPoolExecutor(20) as pool:
        results = [pool.submit(handle.result, 30) for handle in handles * 2]
        queue.complete_many(claimed, [job.data["n"] for job in claimed])
        assert [result.result() for result in results] == [*range(10), *range(10)]
    assert len(listeners() - before) == 1


def test_who_stops_waiting_disturbs_nobody(app: Treadle, queue: JobQueue) -> None:
    @app.job
    def count() -> int:
        return 0

    async def main() -> int:
        handle = await count.aenqueue()
        given_up = asyncio.create_task(handle.aresult())
        patient = asyncio.create_task(handle.aresult(timeout=30))
        await asyncio.sleep(0)
        given_up.cancel()
        with pytest.raises(asyncio.CancelledError):
            await given_up
        with pytest.raises(TimeoutError):
            await handle.aresult(timeout=0)
        await asyncio.to_thread(complete, queue, "count", 7)
        return await patient

    assert run(app, main()) == 7


def test_on_a_callers_connection_results_are_looked_for(queue: JobQueue, url: str) -> None:
    with psycopg.connect(url) as connection:
        app = Treadle(connection)
        handle = app.job(name="count")(lambda: 0).enqueue()
        assert pending(queue) == 0
        connection.commit()
        with ThreadPoolExecutor(1) as pool:
            result = pool.submit(handle.result, 30)
            complete(queue, "count", 7)
            assert result.result() == 7
        with pytest.raises(InvalidArgument, match="needs a database URL"):
            asyncio.run(app.worker().start())


def test_on_a_callers_async_connection_results_are_looked_for(queue: JobQueue, url: str) -> None:
    async def main() -> int:
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
            handle: Handle[int] = await Treadle(connection).job(name="count")(lambda: 0).aenqueue()
            result = asyncio.create_task(handle.aresult(timeout=30))
            # One connection: the second answer comes after the one that the result is waiting on.
            assert [await handle.astatus(), await handle.astatus()] == [Status.PENDING] * 2
            await asyncio.to_thread(complete, queue, "count", 7)
            return await result

    assert asyncio.run(main()) == 7


def test_closing_leaves_no_connection(empty_url: str, server_url: str) -> None:
    migrate(empty_url)
    app = Treadle(empty_url)
    count = app.job(name="count")(lambda: 0)
    handle = count.enqueue()
    complete(app.queue, "count")
    handle.result()
    name = psycopg.conninfo.conninfo_to_dict(empty_url)["dbname"]
    open_ones = "select from pg_stat_activity where datname = %s"
    with psycopg.connect(server_url, autocommit=True) as connection:
        app.close()
        end = time.monotonic() + 1.5
        while connection.execute(open_ones, [name]).fetchall():
            assert time.monotonic() < end
            time.sleep(0.01)


# What the decorator and the application refuse


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"timeout": 0}, "timeout and deadline must be longer than nothing"),
        ({"deadline": "0s"}, "timeout and deadline must be longer than nothing"),
        ({"timeout": -1}, "timeout must not be negative, got -1"),
        ({"timeout": "soon"}, "timeout must be a timedelta, seconds, or a text .*, got 'soon'"),
        ({"deadline": []}, "deadline must be a timedelta, seconds, or a text"),
        ({"timeout": "5m", "deadline": "1m"}, "deadline must not come before timeout, got '1m' and '5m'"),
        ({"memory_limit": "1GB"}, "memory_limit needs process=True"),
        ({"memory_limit": "much", "process": True}, 'memory_limit must be .* such as "512MB" or "2GB", got \'much\''),
        ({"retry_on": [ValueError, "OSError"]}, "retry_on must be exception classes, got 'OSError'"),
        ({"retry_on": int}, "retry_on must be exception classes, got <class 'int'>"),
        ({"give_up_on": (ValueError(),)}, "give_up_on must be exception classes, got ValueError"),
        ({"name": "x" * 51}, "job type must be a text of 1 to 50 characters"),
        ({"name": "a\nb"}, "job type must not contain"),
        ({"aliases": [""]}, "alias must be a text of 1 to 50 characters"),
    ],
)
def test_wrong_arguments_of_the_decorator_are_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidArgument, match=problem):
        Treadle(NOWHERE).job(**options)(heavy)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"priority": "high"}, "priority must be an integer"),
        ({"max_attempts": 0}, "max_attempts must be an integer from 1"),
        ({"queue": "x" * 51}, "queue must be a text of 1 to 50 characters"),
        ({"backoff": "1s"}, "backoff must be"),
        ({"retry_on": 7}, "retry_on must be exception classes, got 7"),
        ({"retry_on": "OSError"}, "retry_on must be exception classes, got 'OSError'"),
        ({"aliases": "before"}, "aliases must be .*, got 'before'"),
        ({"name": ""}, "job type must be a text of 1 to 50 characters"),
    ],
)
def test_wrong_arguments_of_the_decorator_are_refused_where_they_stand(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidArgument, match=problem):
        Treadle(NOWHERE).job(**options)(heavy)


def test_unknown_arguments_of_the_decorator_are_refused() -> None:
    options: dict[str, Any] = {"colour": "red"}
    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        Treadle(NOWHERE).job(**options)


def test_a_refused_function_leaves_nothing_behind() -> None:
    app = Treadle(NOWHERE)
    with pytest.raises(InvalidArgument, match="alias"):
        app.job(name="count", aliases=[""])(heavy)
    assert app.job_types == []


def test_how_a_job_type_is_run() -> None:
    app = Treadle(NOWHERE)
    backoff = Backoff(first="2s", factor=3, limit="1h")
    asked = app.job(
        timeout="5m", backoff=backoff, retry_on=OSError, give_up_on=[KeyError], process=True, memory_limit="512MB"
    )
    policy = asked(heavy).policy
    assert (policy.timeout, policy.deadline) == (300, 310)
    assert (policy.retry_on, policy.give_up_on) == ((OSError,), (KeyError,))
    assert (policy.process, policy.memory_limit, policy.backoff) == (True, 512 * 1024**2, backoff)
    policy = app.job(name="two", timeout=timedelta(minutes=1), deadline="60s", retry_on=())(heavy).policy
    assert (policy.timeout, policy.deadline, policy.retry_on) == (60, 60, ())
    policy = app.job(name="three", deadline=7)(heavy).policy
    assert (policy.timeout, policy.deadline, policy.retry_on, policy.backoff) == (None, 7, None, Backoff())
    with pytest.raises(InvalidJob, match="cannot run in a process of its own: it has to be defined at the top"):
        app.job(process=True)(lambda: None)


def test_how_long_ended_jobs_are_kept() -> None:
    assert Treadle(NOWHERE).keep == {"completed": "7d", "cancelled": "7d", "failed": "30d"}
    kept = Treadle(NOWHERE, keep={"completed": "1h", "failed": None}).keep
    assert kept == {"completed": "1h", "cancelled": "7d", "failed": None}
    with pytest.raises(InvalidArgument, match="keep is by completed, failed or cancelled, got pending, running"):
        Treadle(NOWHERE, keep={"running": "1d", "pending": "1d", "failed": "1d"})
    with pytest.raises(InvalidArgument, match=r"keep\['failed'\] must be a timedelta, seconds, or a text"):
        Treadle(NOWHERE, keep={"failed": "for ever"})


def test_what_is_not_a_database_or_a_schema_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="a URL or a psycopg connection or pool, got int"):
        Treadle(7)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="schema must be a plain identifier"):
        Treadle(NOWHERE, schema="my schema")


# Words


def test_backoff_grows_by_its_factor_up_to_its_limit() -> None:
    backoff = Backoff(first="2s", factor=3, limit="1m", jitter=0)
    assert [backoff.seconds(attempt) for attempt in (1, 2, 3, 4, 5, 6)] == [2, 6, 18, 54, 60, 60]
    assert [Backoff(factor=1, jitter=0).seconds(attempt) for attempt in (1, 2, 1000)] == [1, 1, 1]
    assert Backoff(first="1h", limit="1m", jitter=0).seconds(1) == 60
    for attempt in (64, 1_025, 10_000, 2**31 - 1):
        assert Backoff(jitter=0).seconds(attempt) == 3600
    assert Backoff(first=1, factor=2, limit="1h", jitter=0).seconds(10_000) == 3600
    assert Backoff(limit=0).seconds(3) == 0


def test_chance_decides_the_jitters_part_of_a_backoff() -> None:
    for jitter in (0.0, 0.25, 1.0):
        drawn = [Backoff(first=8, factor=1, jitter=jitter).seconds(1) for _ in range(300)]
        assert 8 * (1 - jitter) <= min(drawn) <= max(drawn) <= 8
        assert max(drawn) - min(drawn) >= 8 * jitter * 0.9
    beyond = [Backoff(first=8, limit=4, jitter=0.5).seconds(2**31 - 1) for _ in range(100)]
    assert 2 <= min(beyond) <= max(beyond) <= 4


@pytest.mark.parametrize(("factor", "attempt"), [(2.0, 2_000), (2, 2_000)])
def test_a_backoff_of_nothing_stays_nothing(factor: float, attempt: int) -> None:
    assert Backoff(first=0, factor=factor).seconds(attempt) == 0


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"factor": 0.5}, r"factor must be at least 1, got 0\.5"),
        ({"factor": float("nan")}, "factor must be at least 1, got nan"),
        ({"jitter": 1.5}, r"jitter must be from 0 to 1, got 1\.5"),
        ({"jitter": -0.1}, r"jitter must be from 0 to 1, got -0\.1"),
        ({"first": "soon"}, "first must be a timedelta, seconds, or a text .*, got 'soon'"),
        ({"first": -1}, "first must not be negative, got -1"),
        ({"limit": None}, "limit must be a timedelta, seconds, or a text .*, got None"),
    ],
)
def test_a_wrong_backoff_is_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidArgument, match=problem):
        Backoff(**options)


def test_sizes_as_people_write_them() -> None:
    kilo, mega, giga = 1024, 1024**2, 1024**3
    written: dict[int | str, int] = {
        1: 1,
        536870912: 512 * mega,
        "512MB": 512 * mega,
        "512 mb": 512 * mega,
        "2GB": 2 * giga,
        "1.5g": giga * 3 // 2,
        "64KiB": 64 * kilo,
        " 100 ": 100,
        "7B": 7,
    }
    for text, meant in written.items():
        assert size(text) == meant
    refused: list[Any] = [0, -1, True, 1.5, None, "", "0MB", "-1MB", "much", "1TB", "MB", "1 2MB", "1e3MB"]
    for value in refused:
        with pytest.raises(InvalidArgument, match='limit must be a number of bytes or a text such as "512MB"'):
            size(value, "limit")

"""The arguments of a job function become the payload, are checked by its annotations, and may include the job."""

import importlib.util
import sys
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID, uuid4

import pytest

from tests.support.apps import Colour, Opaque, Order, Pair, Point, count_pending, run_jobs
from treadle import Handle, InvalidJob, InvalidPayload, Job, JobFailed, JobQueue, Retries, Treadle, current_job

NOWHERE = "postgresql://ada:secret@127.0.0.1:1/app"


def test_arguments_are_checked_when_enqueued(app: Treadle, queue: JobQueue) -> None:
    @app.job
    def welcome(user_id: int, tags: list[str] = []) -> None: ...  # noqa: B006 - never changed

    enqueue: Any = welcome.enqueue
    for args, named, problem in (
        (("seven",), {}, "welcome.user_id: Input should be a valid integer.*, got a value of type str"),
        ((7.5,), {}, "welcome.user_id: .*got a value of type float"),
        ((None,), {}, "welcome.user_id: .*got None"),
        ((7, ["a", 1]), {}, r"welcome.tags\[1\]: Input should be a valid string, got a value of type int"),
        ((), {}, r"^welcome: missing: user_id; it takes \(user_id: int, tags: list\[str\] = \[\]\)$"),
        ((7,), {"colour": "red"}, "unexpected: colour; it takes"),
        ((), {"user": 7, "tag": "a"}, "missing: user_id; unexpected: user, tag; it takes"),
        ((7, [], 3), {}, "too many positional arguments"),
        ((7,), {"user_id": 8}, "multiple values for argument 'user_id'"),
        ((7,), {"user_id": 8, "tags": []}, "multiple values for argument 'user_id'"),
        (("seven",), {"tags": 1}, r"welcome.user_id: .* \(and 1 more\)"),
    ):
        with pytest.raises(InvalidPayload, match=problem):
            enqueue(*args, **named)
    assert count_pending(queue) == 0
    assert welcome.enqueue(7).job().data == {"user_id": 7}
    assert enqueue("7", tags=("a",)).job().data == {"user_id": 7, "tags": ["a"]}


def test_an_error_has_the_type_of_the_value_and_not_the_value(app: Treadle) -> None:
    """Errors are logged and stored, and neither the log nor the errors are for payloads."""

    @app.job
    def welcome(user_id: int) -> None: ...

    with pytest.raises(InvalidPayload) as refused:
        welcome.enqueue("hunter2-canary" * 1000)  # type: ignore[arg-type]
    assert "hunter2" not in str(refused.value)
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

    (result,) = run_jobs(app, everything.enqueue(**given))
    (arrived,) = seen
    del arrived["seen"]
    assert arrived == given
    assert {name: type(value) for name, value in arrived.items()} == {k: type(v) for k, v in given.items()}
    assert arrived["moment"].utcoffset() == given["moment"].utcoffset()
    assert str(arrived["amount"]) == "12345678901234567890.10"
    left_out = {"naive", "both", "either", "anything"}
    assert result == tuple(value for name, value in given.items() if name not in left_out)


def test_a_job_whose_payload_no_longer_fits_fails(app: Treadle, queue: JobQueue) -> None:
    """An older version of the program or SQL enqueued it: the payload is checked again when the job runs."""

    @app.job(retry=Retries(0))
    def welcome(user_id: int) -> None: ...

    handle = app.handle(queue.enqueue("welcome", {"user": 7}, retry=Retries(0)))
    with pytest.raises(JobFailed, match="welcome: missing: user_id; unexpected: user; it takes"):
        run_jobs(app, handle)


def test_keyword_arguments_reach_the_handler(app: Treadle) -> None:
    @app.job
    def render(path: str, **options: Any) -> dict[str, Any]:
        return {"path": path, **options}

    @app.job
    def only(**options: int) -> int:
        return sum(options.values())

    first = render.enqueue("a.png", width=3, options={"x": 1})
    assert first.job().data == {"path": "a.png", "width": 3, "options": {"x": 1}}
    many = render.enqueue_many([{"path": "b.png", "height": 4}])
    assert run_jobs(app, first, *many, only.enqueue(a=1, b=2), only.enqueue()) == [
        {"path": "a.png", "width": 3, "options": {"x": 1}},
        {"path": "b.png", "height": 4},
        3,
        0,
    ]


def test_keyword_arguments_are_checked_by_their_annotation(app: Treadle) -> None:
    @app.job
    def remind(**days: date) -> None: ...

    data = remind.enqueue(first=date(2024, 2, 29)).job().data
    assert data == {"first": "2024-02-29"}
    job: Any = None  # the function does not have this parameter
    assert remind.arguments.load('{"first": "2024-02-29"}', job) == {"first": date(2024, 2, 29)}
    with pytest.raises(InvalidPayload, match="first"):
        remind.enqueue(first="tomorrow")  # type: ignore[arg-type]


def test_a_keyword_argument_named_like_the_job_parameter_is_refused(app: Treadle) -> None:
    @app.job
    def render(job: Job, **options: Any) -> None: ...

    enqueue: Any = render.enqueue
    with pytest.raises(InvalidPayload, match="job"):
        enqueue(job="cleaning")


def test_a_keyword_argument_may_have_any_name(app: Treadle) -> None:
    @app.job
    def render(**options: Any) -> None: ...

    enqueue: Any = render.enqueue
    assert enqueue(self=1, json=2).job().data == {"self": 1, "json": 2}


def test_a_value_that_json_cannot_represent_is_refused_with_its_path(app: Treadle, queue: JobQueue) -> None:
    @app.job
    def remember(value: dict[str, list[float | str]]) -> None: ...

    for value, problem in ((float("nan"), "nan is not a JSON number"), ("a\x00", "a NUL character")):
        with pytest.raises(InvalidPayload, match=rf"value\.x\[0\]: {problem}"):
            remember.enqueue(value={"x": [value]})
    assert count_pending(queue) == 0


@pytest.mark.parametrize(
    "value", [b"\xff", Opaque(), float("nan"), [float("inf")]], ids=["bytes", "object", "nan", "inf"]
)
def test_a_value_that_json_cannot_represent_is_refused_without_an_annotation(
    app: Treadle, queue: JobQueue, value: object
) -> None:
    @app.job
    def remember(value: Any) -> None: ...

    with pytest.raises(InvalidPayload, match="value"):
        remember.enqueue(value=value)


def test_the_job_is_passed_to_a_parameter_annotated_with_it(app: Treadle) -> None:
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
    assert run_jobs(app, *handles) == ["first 1", "last 2", "optional 3", "named 4", "below 5"]
    assert optional(3) is None
    with pytest.raises(LookupError):
        current_job()


def test_the_caller_cannot_pass_the_job(app: Treadle) -> None:
    @app.job
    def optional(n: int, job: Job | None = None) -> None: ...

    with pytest.raises(InvalidPayload, match="job is the job, which the worker passes; leave it out"):
        optional.enqueue(1, job=None)
    with pytest.raises(InvalidPayload, match=r"^optional: missing: n; it takes \(n: int\) \(the worker passes job\)$"):
        optional.enqueue()  # type: ignore[call-arg]
    with pytest.raises(InvalidPayload, match=r"\[0\].*job"):
        optional.enqueue_many([{"n": 1, "job": None}])


def test_a_second_job_parameter_is_refused(app: Treadle) -> None:
    @app.job
    def twice(one: Job, two: Job | None) -> None: ...

    with pytest.raises(InvalidJob, match="has more than one Job parameter: one, two"):
        twice.enqueue(None)


def test_the_job_parameter_may_use_annotated(app: Treadle) -> None:
    @app.job
    def send(n: int, job: Annotated[Job, "the running one"]) -> None: ...

    assert send.arguments.job_parameter == "job"


def test_annotations_may_be_strings_with_names_defined_later(
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
    assert run_jobs(module.app, handle) == [module.Parcel(2, module.Parcel(2))]
    with pytest.raises(InvalidPayload, match=r"ship.parcel.inner.weight: .*got a value of type str"):
        module.ship.enqueue({"weight": 1, "inner": {"weight": "x"}})


@pytest.mark.parametrize(
    "annotation",
    [
        "Nowhere",
        *(text for text in ("asyncio.Nowhere", "int |", "Point | 7")),
    ],
)
def test_annotations_that_cannot_be_resolved_are_refused(app: Treadle, queue: JobQueue, annotation: str) -> None:
    def broken(one: Any) -> None: ...

    broken.__annotations__["one"] = annotation
    job = app.job(broken)
    with pytest.raises(InvalidJob, match=r"the annotations of .*broken cannot be read: .*"):
        job.enqueue(one=1)
    with pytest.raises(InvalidJob, match="broken"):
        run_jobs(app)
    assert count_pending(queue) == 0


def test_an_annotation_that_cannot_be_a_payload_is_refused(app: Treadle, queue: JobQueue) -> None:
    @app.job
    def remember(value: Opaque) -> None: ...

    with pytest.raises(InvalidJob, match=r"remember has an annotation that cannot be a payload: .*Opaque"):
        remember.enqueue(Opaque())
    assert count_pending(queue) == 0


def test_a_return_annotation_that_cannot_be_a_result_is_refused_at_enqueue(app: Treadle, queue: JobQueue) -> None:
    @app.job
    def remember() -> Opaque:
        return Opaque()

    with pytest.raises(InvalidJob, match="remember has an annotation that cannot be a"):
        remember.enqueue()
    assert count_pending(queue) == 0

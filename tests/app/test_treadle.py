"""Treadle and @app.job: decorated functions stay ordinary functions; invalid functions and options are refused."""

import asyncio
import inspect
from datetime import timedelta
from typing import Any

import pytest

from tests.support.apps import heavy, run_jobs
from treadle import (
    Backoff,
    DatabaseUnreachable,
    InvalidArgument,
    InvalidJob,
    Job,
    JobQueue,
    Retries,
    Status,
    Treadle,
    UnknownJobType,
)
from treadle.words.size import size

NOWHERE = "postgresql://ada:secret@127.0.0.1:1/app"


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


def test_an_exception_of_a_called_function_is_raised() -> None:
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


def test_the_database_url_may_come_from_the_environment(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    app = Treadle()
    add = app.job(name="add")(lambda: 1)
    monkeypatch.setenv("TREADLE_DATABASE_URL", url)
    assert add.enqueue().status() == Status.PENDING
    app.close()


def test_two_functions_with_the_same_name_are_refused() -> None:
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
    with pytest.raises(UnknownJobType, match="no job type 'plus'; known types: add, sum"):
        app.function("plus")


def test_a_job_enqueued_under_an_old_name_is_run_by_the_renamed_function(app: Treadle, queue: JobQueue) -> None:
    old = app.handle(queue.enqueue("welcome", {"user_id": 7}))

    @app.job(name="greet", aliases=["welcome", "hello"])
    def greet_somebody(user_id: int, job: Job) -> str:
        return f"{job.type} {user_id}"

    new = greet_somebody.enqueue(user_id=8)  # type: ignore[call-arg]
    assert new.job().job_type == "greet"
    assert run_jobs(app, old, new) == ["welcome 7", "greet 8"]


def test_an_object_that_cannot_be_a_job_function_is_refused() -> None:
    app = Treadle(NOWHERE)
    refused: list[tuple[Any, str]] = [
        (7, "a job must be a function, got 7"),
        (app.job(name="once")(lambda: None), "once is already a job function"),
        (lambda *args: None, r"\*parameter, args: a payload consists of named values"),
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
        Service().send  # noqa: B018 - the access itself raises
    assert Service.count(3) == 3


def test_attributes_of_the_function_do_not_override_those_of_the_job_function() -> None:
    app = Treadle(NOWHERE)

    def add() -> None: ...

    add.name = add.backend = "mine"  # type: ignore[attr-defined]
    job = app.job(add)
    assert (job.name, job.backend) == ("add", app.backend)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"timeout": 0}, "timeout must be longer than 0 s"),
        ({"timeout": (None, "0s")}, "timeout must be longer than 0 s"),
        ({"timeout": -1}, "timeout must not be negative, got -1"),
        ({"timeout": "soon"}, "timeout must be a duration such as .*, got 'soon'"),
        ({"timeout": []}, r'timeout must be a duration, or two such as \("25s", "30s"\), got \[\]'),
        ({"timeout": ("5m", "1m")}, r"must not be shorter than the first, got \('5m', '1m'\)"),
        ({"timeout": ("5m", None)}, r"must not be shorter than the first, got \('5m', None\)"),
        ({"retry": 3}, r"retry must be Retries\(…\), such as Retries\(5\), got 3; Retries\(0\) never retries"),
        ({"limits": 3}, r"limits must be Limit\(…\), Rate\(…\) or MaxPending\(…\), or a list of them, got 3"),
        ({"schedule": "@daily"}, r"schedule must be Cron\(…\) or Every\(…\), such as Cron\('@daily'\)"),
        ({"memory_limit": "1GB"}, "memory_limit needs process=True"),
        ({"memory_limit": "much", "process": True}, 'memory_limit must be .* such as "512MB" or "2GB", got \'much\''),
        ({"name": "x" * 51}, "job type must be a string of 1 to 50 characters"),
        ({"name": "a\nb"}, "job type must not contain"),
        ({"aliases": [""]}, "alias must be a string of 1 to 50 characters"),
    ],
)
def test_invalid_arguments_of_the_decorator_are_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidArgument, match=problem):
        Treadle(NOWHERE).job(**options)(heavy)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"priority": "high"}, "priority must be an integer"),
        ({"queue": "x" * 51}, "queue must be a string of 1 to 50 characters"),
        ({"aliases": "before"}, "aliases must be .*, got 'before'"),
        ({"name": ""}, "job type must be a string of 1 to 50 characters"),
    ],
)
def test_invalid_arguments_of_the_decorator_are_refused_before_it_is_applied(
    options: dict[str, Any], problem: str
) -> None:
    with pytest.raises(InvalidArgument, match=problem):
        Treadle(NOWHERE).job(**options)(heavy)


def test_a_refused_function_is_not_registered() -> None:
    app = Treadle(NOWHERE)
    with pytest.raises(InvalidArgument, match="alias"):
        app.job(name="count", aliases=[""])(heavy)
    assert app.job_types == []


def test_the_options_of_the_decorator_become_the_policy() -> None:
    app = Treadle(NOWHERE)
    backoff = Backoff(first="2s", factor=3, limit="1h")
    asked = app.job(
        timeout="5m",
        retry=Retries(on=OSError, give_up_on=[KeyError], backoff=backoff),
        process=True,
        memory_limit="512MB",
    )
    policy = asked(heavy).policy
    assert (policy.timeout, policy.deadline) == (300, 310)
    assert (policy.retry.on, policy.retry.give_up_on) == ((OSError,), (KeyError,))
    assert (policy.process, policy.memory_limit, policy.retry.backoff) == (True, 512 * 1024**2, backoff)
    policy = app.job(name="two", timeout=(timedelta(minutes=1), "60s"), retry=Retries(on=()))(heavy).policy
    assert (policy.timeout, policy.deadline, policy.retry.on) == (60, 60, ())
    policy = app.job(name="three", timeout=(None, 7))(heavy).policy
    assert (policy.timeout, policy.deadline, policy.retry) == (None, 7, Retries())
    with pytest.raises(InvalidJob, match="cannot run in a process of its own: it must be defined at the top"):
        app.job(process=True)(lambda: None)


def test_the_retention_of_finished_jobs_is_configurable() -> None:
    assert Treadle(NOWHERE).workload.keep == {"completed": "7d", "cancelled": "7d", "failed": "30d"}
    kept = Treadle(NOWHERE, keep={"completed": "1h", "failed": None}).workload.keep
    assert kept == {"completed": "1h", "cancelled": "7d", "failed": None}
    with pytest.raises(InvalidArgument, match="keep are completed, failed and cancelled, got pending, running"):
        Treadle(NOWHERE, keep={"running": "1d", "pending": "1d", "failed": "1d"})
    with pytest.raises(InvalidArgument, match=r"keep\['failed'\] must be a duration such as"):
        Treadle(NOWHERE, keep={"failed": "for ever"})


def test_an_invalid_database_or_schema_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="or Django, got int"):
        Treadle(7)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="schema must be a plain identifier"):
        Treadle(NOWHERE, schema="my schema")


def test_sizes_may_have_units() -> None:
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
        with pytest.raises(InvalidArgument, match='limit must be a number of bytes or a string such as "512MB"'):
            size(value, "limit")

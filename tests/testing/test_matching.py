"""assert_enqueued() and its kin, and what they say."""

import asyncio
import inspect
import re
from datetime import UTC, date, datetime
from unittest.mock import ANY

import pytest

from treadle import InvalidArgument, Job, JobGroup, Status, Treadle, UnknownJobType
from treadle.jobs.function import JobFunction
from treadle.testing import Harness
from treadle.testing.matching import OPTIONS


@pytest.fixture
def welcome(app: Treadle) -> "JobFunction[..., None, ..., None]":
    @app.job(aliases=["greet"])
    def welcome(job: Job, user_id: int, day: date = date(2026, 1, 1), name: str = "you") -> None: ...

    return welcome


def test_a_job_is_found_by_some_of_its_arguments_and_options(
    harness: Harness, welcome: "JobFunction[..., None, ..., None]"
) -> None:
    first = welcome.using(priority=150, key="user:7", delay="10m").enqueue(user_id=7, day=date(2026, 5, 1))
    second = welcome.enqueue(user_id=8)
    assert [each.id for each in harness.enqueued(welcome)] == [first.id, second.id]
    assert harness.assert_enqueued(welcome, user_id=7, day=date(2026, 5, 1)).id == first.id
    assert harness.assert_enqueued(welcome, 8).id == second.id
    assert harness.assert_enqueued("welcome", user_id=ANY, priority=150, key="user:7", delay="10m").id == first.id
    assert harness.assert_enqueued("greet", day=date(2026, 1, 1), name="you", queue="default").id == second.id
    harness.assert_not_enqueued(welcome, user_id=9)
    harness.drain()
    assert [each.id for each in harness.enqueued(welcome, status="pending")] == [first.id]
    assert harness.assert_enqueued(welcome, user_id=8, status=Status.COMPLETED).id == second.id


def test_the_difference_names_what_was_expected_what_there_is_and_what_differs(
    app: Treadle, harness: Harness, welcome: "JobFunction[..., None, ..., None]"
) -> None:
    welcome.using(queue="mail").enqueue(user_id=8, name="ann")
    welcome.using(priority=150, key="k", delay="1h").enqueue(user_id=7, name="bob")
    with pytest.raises(AssertionError) as raised:
        harness.assert_enqueued(welcome, user_id=7, name="ann", priority=150)
    assert str(raised.value) == (
        "no job was enqueued that is welcome(user_id=7, name='ann'), priority 150\n"
        "2 of this type:\n"
        "  welcome(day=datetime.date(2026, 1, 1), name='bob', user_id=7), pending, priority 150, key k, delay 1:00:00\n"
        "    name: expected 'ann', got 'bob'\n"
        "  welcome(day=datetime.date(2026, 1, 1), name='ann', user_id=8), pending, priority 100, queue mail\n"
        "    user_id: expected 7, got 8\n"
        "    priority: expected 150, got 100"
    )
    with pytest.raises(AssertionError, match=r"delay: expected .*seconds=60.*, got .*seconds=3"):
        harness.assert_enqueued(welcome, user_id=7, delay="1m")
    with pytest.raises(
        AssertionError, match=r"expected no job welcome\(user_id=7\), but 1 were enqueued:\n  welcome\("
    ):
        harness.assert_not_enqueued(welcome, user_id=7)


def test_without_a_job_of_that_type_the_others_are_counted(
    app: Treadle, harness: Harness, welcome: "JobFunction[..., None, ..., None]"
) -> None:
    with pytest.raises(AssertionError, match=r"that is welcome\(user_id=7\)\nno job was enqueued at all"):
        harness.assert_enqueued(welcome, user_id=7)
    app.queue.enqueue("other", {})
    with pytest.raises(AssertionError, match="there are no jobs of this type; others: 1 of other"):
        harness.assert_enqueued(welcome)


def test_only_the_closest_jobs_are_shown(harness: Harness, welcome: "JobFunction[..., None, ..., None]") -> None:
    welcome.enqueue_many({"user_id": n} for n in range(8))
    with pytest.raises(AssertionError, match="and 3 more"):
        harness.assert_enqueued(welcome, user_id=9)


def test_mistakes_of_the_test_are_explained(
    app: Treadle, harness: Harness, welcome: "JobFunction[..., None, ..., None]"
) -> None:
    with pytest.raises(
        InvalidArgument, match="welcome has no argument 'user'; it takes user_id, day, name, and the opt"
    ):
        harness.assert_enqueued(welcome, user=7)
    with pytest.raises(InvalidArgument, match="user_id is given twice"):
        harness.enqueued(welcome, 7, user_id=7)
    with pytest.raises(InvalidArgument, match="takes 3 arguments, got 4"):
        harness.enqueued(welcome, 1, 2, 3, 4)
    with pytest.raises(UnknownJobType, match="known types: greet, welcome"):
        harness.enqueued("farewell")
    with pytest.raises(InvalidArgument, match="expected a job function"):
        harness.enqueued(len)  # type: ignore[arg-type]
    other = Treadle("postgresql://nobody@production.invalid/shop").job(lambda: None)
    with pytest.raises(InvalidArgument, match="belongs to another application"):
        harness.enqueued(other)


def test_an_argument_hides_the_option_of_its_name(app: Treadle, harness: Harness) -> None:
    @app.job
    def sort(priority: int, **rest: int) -> None: ...

    sort.enqueue(priority=3, extra=4)
    harness.assert_enqueued(sort, priority=3, extra=4)
    harness.assert_not_enqueued(sort, extra=5)


def test_a_payload_that_does_not_fit_the_function_is_shown_as_it_is(
    app: Treadle, harness: Harness, welcome: "JobFunction[..., None, ..., None]"
) -> None:
    app.queue.enqueue("welcome", {"user": 7})
    with pytest.raises(AssertionError, match=r"welcome\(user=7\), pending"):
        harness.assert_enqueued(welcome, user_id=7)


def test_run_at_is_compared(harness: Harness, welcome: "JobFunction[..., None, ..., None]") -> None:
    moment = datetime(2100, 1, 1, tzinfo=UTC)
    welcome.using(run_at=moment).enqueue(user_id=1)
    harness.assert_enqueued(welcome, run_at=moment)


def test_headers_are_compared_as_far_as_they_are_given(
    harness: Harness, welcome: "JobFunction[..., None, ..., None]"
) -> None:
    welcome.using(headers={"tenant": "acme", "trace": "1"}).enqueue(user_id=1)
    harness.assert_enqueued(welcome, headers={"tenant": "acme"})
    with pytest.raises(
        AssertionError, match=r"headers: expected {'tenant': 'other'}, got {'trace': '1', 'tenant': 'acme'}"
    ):
        harness.assert_enqueued(welcome, headers={"tenant": "other"})


def test_functions_of_a_group_are_those_of_its_application(app: Treadle, harness: Harness) -> None:
    jobs = JobGroup()

    @jobs.job
    def report() -> None: ...

    app.include(jobs)
    report.enqueue()
    harness.assert_enqueued(report)
    assert harness.drain().completed == 1


def test_async_twins_say_the_same(harness: Harness, welcome: "JobFunction[..., None, ..., None]") -> None:
    async def main() -> None:
        job = await welcome.aenqueue(user_id=7)
        assert (await harness.aassert_enqueued(welcome, user_id=7)).id == job.id
        assert len(await harness.aenqueued(welcome)) == 1
        await harness.aassert_not_enqueued(welcome, user_id=8)
        with pytest.raises(AssertionError, match="user_id: expected 9, got 7"):
            await harness.aassert_enqueued(welcome, user_id=9)

    asyncio.run(main())


def test_every_method_that_uses_the_database_has_an_async_twin() -> None:
    names = {name for name, each in inspect.getmembers(Harness, inspect.isfunction) if not name.startswith("_")}
    without = {
        name for name in names if f"a{name}" not in names and not inspect.iscoroutinefunction(getattr(Harness, name))
    }
    assert without == {"inline"}
    for name in names - without:
        if not inspect.iscoroutinefunction(getattr(Harness, name)):
            twin = inspect.signature(getattr(Harness, f"a{name}"))
            assert inspect.signature(getattr(Harness, name)).parameters == twin.parameters, name


def test_the_options_are_documented() -> None:
    assert set(OPTIONS) <= set(re.findall(r"\w+", str(Harness.enqueued.__doc__)))

"""JobGroup: job functions that are declared without an application, and found by their modules' names."""

import inspect
import subprocess
import sys
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.support.apps import run_jobs
from treadle import (
    Cron,
    Every,
    InvalidArgument,
    InvalidJob,
    JobDefaults,
    JobGroup,
    JobOptions,
    JobQueue,
    Limit,
    NotIncluded,
    Retries,
    Treadle,
    Workflow,
)
from treadle.jobs.job_options import job_options

NOWHERE = "postgresql://ada:secret@127.0.0.1:1/app"


def test_a_function_of_a_group_is_enqueued_once_an_application_includes_it(app: Treadle) -> None:
    jobs = JobGroup()

    @jobs.job(retry=Retries(6))
    def add(one: int, two: int = 2) -> int:
        return one + two

    assert add(1) == 3
    app.include(jobs)
    handle = add.enqueue(one=1)
    assert app.queue.get(handle.id).max_attempts == 7
    assert run_jobs(app, handle) == [3]


def test_a_function_without_an_application_can_be_called_but_not_enqueued() -> None:
    jobs = JobGroup()

    @jobs.job
    def add(one: int) -> int:
        return one + 1

    flow = Workflow("sums")
    assert add(1) == 2
    assert jobs.job_types == ["add"]
    for enqueue in (
        lambda: add.enqueue(1),
        lambda: add.using(delay="1s").enqueue(1),
        lambda: add.enqueue_many([{"one": 1}]),
        lambda: (flow.add(add.call(1)), flow.enqueue()),
    ):
        with pytest.raises(NotIncluded, match=r"add is in a JobGroup that no application includes: import the module"):
            enqueue()


def test_what_is_declared_after_the_group_was_included_belongs_to_the_application_as_well(app: Treadle) -> None:
    jobs = JobGroup()
    app.include(jobs)

    @jobs.job(aliases=["sum"], limits=Limit(3), schedule=Every("1m"))
    def add() -> int:
        return 1

    assert app.job_types == ["add", "sum"]
    assert [declaration.name for declaration in app.schedules.declared()] == ["add"]
    assert [limit.name for limit, _ in app.declared_limits().limits] == [each.name for each in add.limits]
    assert run_jobs(app, add.enqueue()) == [1]


def test_defaults_are_for_functions_that_do_not_say_otherwise() -> None:
    group = JobGroup(defaults=JobDefaults(queue="web", expires="1h"))
    options: list[tuple[JobGroup, dict[str, Any]]] = [
        (group, {}),
        (group, {"queue": "mail", "retry": Retries(5), "timeout": None, "expires": None}),
    ]
    made = [jobs.job(name=f"job{nth}", **given)(lambda: None) for nth, (jobs, given) in enumerate(options)]
    assert [each.defaults["queue"] for each in made] == ["web", "mail"]
    assert made[0].defaults["retry"] == Retries(2)

    app = Treadle(NOWHERE, defaults=JobDefaults(queue="slow", retry=Retries(1, on=OSError), timeout="10m", prints=True))
    app.include(group)
    made += [group.job(name="later")(lambda: None), app.job(name="own")(lambda: None)]
    assert [(each.defaults["queue"], each.defaults["retry"].amount) for each in made] == [
        ("web", 1), ("mail", 5), ("web", 1), ("slow", 1),
    ]  # fmt: skip
    assert [each.policy.timeout for each in made] == [600, None, 600, 600]
    assert [each.policy.prints for each in made] == [True] * 4
    assert [each.policy.retry.on for each in made] == [(OSError,), None, (OSError,), (OSError,)]
    assert [each.defaults.get("expires") for each in made] == ["1h", None, "1h", None]
    pay = app.job(name="pay", delivery="at_most_once")(lambda: None)
    assert (pay.policy.retry.amount, pay.defaults["queue"]) == (0, "slow"), "it is retried only if it says so itself"


def test_wrong_defaults_are_refused_where_they_are_written() -> None:
    for make, message in (
        (lambda: JobDefaults(retry=1), "retry must be Retries(…)"),  # type: ignore[arg-type]
        (lambda: JobDefaults(timeout="soon"), "timeout must be a duration such as"),
        (lambda: JobDefaults(ques="web"), "JobDefaults(…) has no option 'ques'; did you mean queue?"),  # type: ignore[call-arg]
        (lambda: Treadle(NOWHERE, defaults={"queue": "web"}), "defaults must be JobDefaults(…), such as"),  # type: ignore[arg-type]
        (lambda: JobGroup(default=1), "JobGroup() has no option 'default'; did you mean defaults?"),  # type: ignore[call-arg]
    ):
        with pytest.raises(InvalidArgument) as refused:
            make()
        assert message in str(refused.value)


def test_one_decorator_is_for_several_functions() -> None:
    mail = Treadle(NOWHERE).job(queue="mail")

    @mail
    def one() -> None: ...

    @mail
    def two() -> None: ...

    assert [(each.name, each.defaults["queue"]) for each in (one, two)] == [("one", "mail"), ("two", "mail")]


def test_the_options_for_type_checkers_are_those_that_are_checked() -> None:
    assert set(JobOptions.__annotations__) == set(inspect.signature(job_options).parameters)


def test_schedules_and_limits_come_with_the_group() -> None:
    jobs = JobGroup()

    @jobs.job(schedule=Cron("0 9 * * mon", timezone="Europe/Oslo"))
    def weekly() -> None: ...

    @jobs.job(limits=Limit(3), aliases=["sum"])
    def add(one: int) -> int:
        return one

    jobs.schedule("nightly", Cron("0 3 * * *", start=datetime(2030, 1, 1, tzinfo=UTC)), add, {"one": 1})
    app = Treadle(NOWHERE)
    app.include(jobs)
    weekly_times, nightly = app.schedules.declared()
    assert (weekly_times.expression, weekly_times.timezone) == ("0 9 * * mon", "Europe/Oslo")
    assert (nightly.name, nightly.data) == ("nightly", '{"one":1}')
    ((limit, targets),) = app.declared_limits().limits
    assert (limit.name, targets.job_types) == (add.limits[0].name, {"add", "sum"})


def test_mistakes_in_a_schedule_are_told_where_it_is_declared() -> None:
    jobs = JobGroup()
    with pytest.raises(InvalidArgument, match="hourly"):
        jobs.job(name="often", schedule=Cron("hourly"))(lambda: None)

    @jobs.job
    def add() -> None: ...

    options: Any = {"timezone": "Europe/Oslo"}
    with pytest.raises(InvalidArgument, match=r"schedule\(\) has no option 'timezone'; use schedule=Cron"):
        jobs.schedule("often", Cron("@hourly"), add, **options)


def test_including_a_group_twice_is_harmless() -> None:
    jobs = JobGroup()
    jobs.job(name="one", schedule=Every("1m"))(lambda: 1)
    app = Treadle(NOWHERE)
    app.include(jobs, jobs)
    app.include(jobs)
    assert app.job_types == ["one"]


def test_a_group_belongs_to_one_application() -> None:
    jobs = JobGroup()
    add = jobs.job(name="add")(lambda: 1)
    first, second = Treadle(NOWHERE), Treadle(NOWHERE)
    first.include(jobs)
    with pytest.raises(InvalidJob, match="this group is part of another application"):
        second.include(jobs)
    assert add.backend is first.backend
    assert second.job_types == []


def test_a_name_that_is_taken_is_refused_and_nothing_of_the_group_is_included() -> None:
    jobs = JobGroup()
    first = jobs.job(name="first")(lambda: 1)
    jobs.job(name="add", aliases=["plus"])(lambda: 1)
    app = Treadle(NOWHERE)
    app.job(name="plus")(lambda: 1)
    with pytest.raises(InvalidJob, match="two job functions called 'plus'"):
        app.include(jobs)
    assert app.job_types == ["plus"]
    with pytest.raises(NotIncluded):
        first.enqueue()


def test_a_name_that_the_application_has_is_refused_in_an_included_group() -> None:
    jobs = JobGroup()
    app = Treadle(NOWHERE)
    app.include(jobs)
    app.job(name="add")(lambda: 1)
    with pytest.raises(InvalidJob, match="two job functions called 'add'"):
        jobs.job(name="add")(lambda: 1)
    assert jobs.job_types == []


@pytest.mark.parametrize("other", [Treadle(NOWHERE), "shop.jobs", None])
def test_only_groups_can_be_included(other: object) -> None:
    with pytest.raises(InvalidArgument, match=r"expected a JobGroup\(\)"):
        Treadle(NOWHERE).include(other)  # type: ignore[arg-type]


def test_discover_imports_the_modules_called_jobs_and_includes_their_groups() -> None:
    code = """
from treadle import Treadle
app = Treadle("postgresql://127.0.0.1:1/app")
print(app.discover("tests.support.shop"))
print(app.job_types)
print(app.discover("tests.support.shop.orders", module="nothing"))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "['tests.support.shop.jobs', 'tests.support.shop.orders.jobs']",
        "['in_a_process', 'order']",
        "[]",
    ]


@pytest.mark.parametrize("package", ["no_such_package", "tests.no_such_package.jobs", "tests.jobs.test_group"])
def test_discover_refuses_what_is_not_a_package(package: str) -> None:
    with pytest.raises(InvalidArgument, match=f"expected the name of a package, such as shop, got '{package}'"):
        Treadle(NOWHERE).discover(package)


def test_jobs_of_groups_run_in_child_processes_that_load_the_application(
    queue: JobQueue, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the command, and by a program that has the application in a module: neither the function's module nor the
    program itself includes the group."""
    program = """
if __name__ == "__main__":
    from tests.support.shop.application import app
    app.run_worker(drain=True)
"""
    monkeypatch.setenv("TREADLE_DATABASE_URL", url)
    for command in (
        ["-m", "treadle", "worker", "tests.support.shop.application", "--drain"],
        ["-c", program],
    ):
        job = queue.enqueue("in_a_process", {"number": 1})
        subprocess.run([sys.executable, *command], check=True, capture_output=True)
        assert queue.get(job).result == 2

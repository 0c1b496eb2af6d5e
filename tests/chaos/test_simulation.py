"""The short form of `make simulate`: few jobs and faults, always the same."""

from collections.abc import Iterator
from typing import Any

import pytest
from chaos.simulation.__main__ import simulated_database
from chaos.simulation.app import CRASH_LIMIT, SCHEDULES
from chaos.simulation.database import SimulatedDatabase
from chaos.simulation.judge import judge
from chaos.simulation.plan import MACHINES, Choice, Plan, plan
from chaos.simulation.record import Note
from chaos.simulation.run import simulate
from chaos.simulation.shrink import shrunk, written


@pytest.fixture(scope="module")
def database() -> Iterator[SimulatedDatabase]:
    with simulated_database() as database:
        yield database


@pytest.mark.timeout(900)  # seconds of an idle core, minutes of a busy one
def test_the_same_seed_gives_the_same_trace(database: SimulatedDatabase) -> None:
    first, second = simulate(database, plan(3, seconds=3.0)), simulate(database, plan(3, seconds=3.0))
    assert first.problems == []
    assert first.trace == second.trace
    assert first.steps == second.steps > 1000


@pytest.mark.timeout(900)
def test_a_job_that_kills_its_worker_does_not_stop_the_others(database: SimulatedDatabase) -> None:
    choices = [Choice(0.1 * n, "enqueue", how=enqueued(n)) for n in range(5)]
    choices += [Choice(0.25, "enqueue", how=enqueued(9, dies="returned")), Choice(3.0, "lose machine", 1)]
    run = simulate(database, Plan(1, tuple(choices)))
    assert run.problems == []
    assert sum("killed" in line for line in run.trace) == 4


@pytest.mark.timeout(900)
def test_a_limit_that_is_set_while_jobs_run_counts_them(database: SimulatedDatabase) -> None:
    choices = [Choice(0.0, "enqueue", how=enqueued(n, seconds=6.0)) for n in range(6)]
    choices += [Choice(1.0, "limit", how={"type": "plain", "amount": 2})]
    choices += [Choice(3.2, "enqueue", how=enqueued(10 + n)) for n in range(3)]
    assert simulate(database, Plan(1, tuple(choices))).problems == []


# Plans that fail if a defect is put back that docs/reliability.md lists. Each has a short test elsewhere, too.


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_job_that_ends_its_process_when_it_has_returned_is_not_started_for_ever(database: SimulatedDatabase) -> None:
    run = simulate(database, Plan(1, (Choice(0.0, "enqueue", how=enqueued(0, dies="returned")),)))
    assert run.problems == []
    assert sum("** start " in line for line in run.trace) == CRASH_LIMIT


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_log_filter_that_raises_stops_no_job(database: SimulatedDatabase) -> None:
    choices = [Choice(0.0, "break logging", n, {"seconds": 4.0}) for n in range(MACHINES)]
    choices += [Choice(0.2 * n, "enqueue", how=enqueued(n, fails=1)) for n in range(12)]
    choices += [Choice(1.0, "cut", 0), Choice(1.5, "cut", 1)]
    assert simulate(database, Plan(1, tuple(choices))).problems == []


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_job_that_is_open_and_waits_for_another_does_not_hold_up_its_outcome(database: SimulatedDatabase) -> None:
    waits = enqueued(1, after=[(0, "completed")]) | {"commits": 4.0, "flushes": 0.0, "rolls_back": False}
    choices = [Choice(0.0, "enqueue", how=enqueued(0, seconds=1.0)), Choice(0.4, "enqueue", how=waits)]
    assert simulate(database, Plan(1, tuple(choices), poll=30.0)).problems == []


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_waiting_job_that_is_claimed_by_an_update_and_fails_does_not_wait_for_ever(
    database: SimulatedDatabase,
) -> None:
    choices = [
        Choice(0.0, "enqueue", how=enqueued(0, seconds=1.0)),
        Choice(0.3, "enqueue", how=enqueued(1, after=[(0, "completed")])),
        Choice(0.6, "claim by update", how={"seconds": 1.5, "plain": False}),
    ]
    assert simulate(database, Plan(1, tuple(choices))).problems == []


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_job_that_waits_for_another_in_two_ways_does_not_run_if_that_fails(database: SimulatedDatabase) -> None:
    choices = [
        Choice(0.0, "enqueue", how=enqueued(0, fails=5)),
        Choice(0.1, "enqueue", how=enqueued(1, after=[(0, "both")])),
    ]
    assert simulate(database, Plan(1, tuple(choices))).problems == []


def enqueued(n: int, after: Any = (), **work: Any) -> dict[str, Any]:
    return {"type": "plain", "work": {"n": n, "seconds": 0.05, **work}, "options": {"after": after} if after else {}}


def test_a_plan_is_shortened_to_what_makes_it_fail() -> None:
    whole = plan(5)
    needed = whole.choices[3], whole.choices[-2]
    short = shrunk(whole, lambda each: all(choice in each.choices for choice in needed))
    assert short.choices == needed
    assert eval(written(short)) == short  # noqa: S307 - what it has just written


# What the judge finds

CALM = Plan(1, ())


def note(at: float, what: str, **facts: Any) -> Note:
    return Note(at, what, facts)


def of_job(n: int, begin: float, end: float, job_type: str = "plain", key: str | None = None) -> list[Note]:
    """All that is noted of a job without problems: it was enqueued a second before its only run."""
    run = {"n": n, "fence": 1, "process": "worker 0.1"}
    return [
        note(begin - 1, "enqueued", n=n, type=job_type, key=key, delay=0.0, stored=begin - 1),
        note(begin, "start", **run, type=job_type, tenant="", key=key, attempt=1),
        note(end, "end", **run, how="returned"),
        note(end, "outcome", job=f"id of {n}", how="JobCompleted"),
        note(99, "found", n=n, job=f"id of {n}", type=job_type, status="completed"),
    ]


def beat(schedule: str, time: float, job: str = "") -> Note:
    return note(time, "beat", schedule=schedule, time=time, job=job or f"{schedule} {time}")


BEATS = [beat(name, every * n) for name, every in SCHEDULES.items() for n in range(1, int(100 / every))]


def judged(*notes: list[Note], beats: list[Note] = BEATS) -> list[str]:
    return judge(CALM, sorted((each for several in (*notes, beats) for each in several), key=lambda each: each.at))


def test_a_job_that_ran_once_is_as_it_should_be() -> None:
    assert judged(of_job(1, 10, 11), of_job(2, 10, 11)) == []


def test_what_was_lost_doubled_or_never_enqueued_is_found() -> None:
    assert judged(of_job(1, 10, 11)[:1]) == ["job 1 is lost"]
    assert "job 1 ran and was not enqueued" in judged(of_job(1, 10, 11)[1:])
    assert judged(of_job(1, 10, 11), of_job(1, 10, 11)[3:4]) == ["job 1 has 2 outcomes"]


def test_a_run_before_its_time_and_one_that_is_late_are_found() -> None:
    early = note(5, "enqueued", n=1, type="plain", key=None, delay=6.0, stored=5)
    assert judged([early], of_job(1, 10, 11)[1:]) == ["job 1 started 1.000 s early"]
    late = note(5, "enqueued", n=1, type="plain", key=None, delay=0.0, stored=5)
    assert judged([late], of_job(1, 10, 11)[1:]) == ["job 1 started 5.000 s late"]


def test_runs_that_overlap_are_found() -> None:
    assert judged(of_job(1, 10, 12, key="x"), of_job(2, 11, 13, key="x")) == [
        "jobs 1 and 2 of key x overlapped at 11.000"
    ]
    three = [of_job(n, 10 + n, 20, "limited") for n in range(3)]
    assert judged(*three) == ["jobs 0, 1, 2 ran at once under the limit of limited  at 12.000"]


def test_jobs_of_a_key_that_ran_in_another_order_are_found() -> None:
    (problem,) = judged(
        of_job(1, 10, 11, key="x"),
        [note(1, "enqueued", n=2, key="x", delay=0.0, stored=1)],
        of_job(2, 12, 13, key="x")[1:],
    )
    assert problem == "job 2 of key x ran after job 1, which was enqueued later"


def test_a_time_of_a_schedule_that_was_missed_or_doubled_is_found() -> None:
    name = "every two seconds"
    beats = [each for each in BEATS if (each.schedule, each.time) != (name, 6.0)]
    assert judged(of_job(1, 10, 11), [beat(name, 4.0, "another")], beats=beats) == [
        "schedule every two seconds has 2 jobs for 4",
        "schedule every two seconds has no job for 6",
    ]

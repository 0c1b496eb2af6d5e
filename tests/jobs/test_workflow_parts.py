"""Nested workflows, jobs that steps add, progress and pruning."""

from datetime import timedelta
from typing import Any

import psycopg
import pytest

from tests.jobs.test_workflow_maps import listing
from tests.jobs.test_workflows import Shop
from treadle import (
    InvalidArgument,
    Job,
    JobFailed,
    Status,
    Treadle,
    Workflow,
    chain,
    group,
    if_failed,
    ok_to_fail,
)


@pytest.fixture
def shop(app: Treadle) -> Shop:
    return Shop(app)


# Nested workflows


def test_a_workflow_is_a_step_of_another(shop: Shop) -> None:
    flow = Workflow("whole")
    first = flow.add(shop.number.call(1), name="first")
    inner = Workflow("inner")
    two = inner.add(shop.number.call(2))
    inner.returns(inner.add(shop.double.call(two.output)))
    nested = flow.add(inner, name="nested", after=first)
    flow.returns(flow.add(shop.double.call(nested.output), name="last"))
    handle = flow.enqueue()
    shop.run()
    assert handle.result(timeout=30) == 8
    assert shop.ran == ["number 1", "number 2", "double 2", "double 4"]
    assert [job.name for job in handle.jobs()] == ["nested", "first", "last"]
    assert len(shop.app.workflow(handle.steps["nested"].id).jobs()) == 2
    assert handle.counts() == (False, 3, 3, 0, 0)


def test_shapes_are_steps(shop: Shop) -> None:
    flow = Workflow()
    numbers = flow.add(group(shop.number.call(1), chain(shop.number.call(2), shop.double.call())), name="numbers")
    flow.returns(flow.add(shop.total.call(numbers.output)))
    handle = flow.enqueue()
    shop.run()
    assert handle.result(timeout=30) == 5


def test_a_nested_workflow_that_fails(shop: Shop) -> None:
    inner = Workflow("inner")
    inner.add(shop.fail_once.call())
    inner.add(shop.number.call(1))
    flow = Workflow("outer")
    nested = flow.add(inner, name="nested")
    flow.add(shop.note.call("after"), after=nested)
    flow.add(shop.note.call("mended"), after=if_failed(nested))
    handle = flow.enqueue()
    shop.run()
    assert shop.ran == ["number 1", "mended"]
    with pytest.raises(JobFailed, match="broken"):
        handle.result(timeout=30)
    shop.broken = False
    assert handle.retry() == 1
    shop.run()
    assert handle.status() == Status.COMPLETED
    assert shop.ran == ["number 1", "mended", "after"]


def test_nothing_of_a_nested_workflow_runs_if_what_it_waits_for_fails(shop: Shop) -> None:
    inner = Workflow("inner")
    first = inner.add(shop.number.call(1))
    inner.add(shop.note.call("in any case"), after=ok_to_fail(first))
    inner.add(shop.note.call("if it fails"), after=if_failed(first))
    flow = Workflow("outer")
    flow.add(inner, name="nested", after=flow.add(shop.fail_once.call()))
    handle = flow.enqueue()
    shop.run()
    assert shop.ran == []
    assert handle.steps["nested"].status() == Status.FAILED
    shop.broken = False
    handle.retry()
    shop.run()
    assert shop.ran == ["number 1", "in any case"]
    assert handle.status() == Status.COMPLETED


def test_ways_to_wait_that_are_refused(shop: Shop) -> None:
    flow = Workflow()
    one = flow.add(shop.number.call(1), name="one")
    flow.add(shop.nothing.call(), after=None)
    for after, problem in (
        (5, "a list of them, got 5"),
        ([5], "after must be a step, the name of a step, or a job, got 5"),
        (ok_to_fail(if_failed("one")), "either ok_to_fail"),
    ):
        with pytest.raises(InvalidArgument, match=problem):
            flow.add(shop.nothing.call(), after=after)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="needs a step"):
        flow.returns(None)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="another workflow"):
        flow.returns(Workflow().add(shop.nothing.call()))
    flow.add(shop.double.call(one.output), after=if_failed(one))
    with pytest.raises(InvalidArgument, match="it has no result"):
        flow.enqueue()
    flow = Workflow()
    found = flow.add(listing(shop.app, [1]).call())
    flow.map(shop.double.call(), over=found, after=if_failed(found))
    with pytest.raises(InvalidArgument, match="another way to wait"):
        flow.enqueue()
    with pytest.raises(InvalidArgument, match="deadline must be longer than 0"):
        Workflow(deadline=0)


def test_nesting_that_is_refused(shop: Shop) -> None:
    inner = Workflow("inner")
    with pytest.raises(InvalidArgument, match="no steps"):
        Workflow().add(inner)
    inner.add(shop.nothing.call())
    Workflow("one").add(inner)
    with pytest.raises(InvalidArgument, match="part of a workflow already"):
        Workflow("two").add(inner)
    with pytest.raises(InvalidArgument, match="is part of one: enqueue that"):
        inner.enqueue()
    own = Workflow("own")
    own.add(shop.nothing.call())
    with pytest.raises(InvalidArgument, match="part of itself"):
        own.add(own)
    late = Workflow("late", deadline="1h")
    late.add(shop.nothing.call())
    with pytest.raises(InvalidArgument, match="only the whole"):
        Workflow().add(late)


# Jobs that are added by a step


def test_a_step_adds_jobs_to_its_workflow(shop: Shop) -> None:
    @shop.app.job
    def crawl(job: Job, depth: int) -> None:
        if depth:
            crawl.using(workflow=job).enqueue(depth=depth - 1)

    flow = Workflow()
    flow.add(crawl.call(depth=3))
    handle = flow.enqueue()
    shop.run()
    assert handle.status() == Status.COMPLETED
    assert handle.counts() == (False, 4, 4, 0, 0)


# Progress and pruning


def test_progress_by_effort(shop: Shop, connection: psycopg.Connection[Any]) -> None:
    flow = Workflow()
    flow.add(shop.number.call(1), effort=3)
    flow.add(shop.number.using(delay="1h").call(2), effort=1)
    handle = flow.enqueue()
    shop.run()
    connection.execute("update ticks set ticked_at = clock_timestamp()")  # not the one of every 15 seconds
    connection.execute("select tick('0')")
    progress = handle.progress()
    assert (progress.percent, progress.stage) == (75, "1 of 2 jobs")


def test_a_workflow_is_pruned_as_one(shop: Shop, connection: psycopg.Connection[Any]) -> None:
    inner = Workflow("inner")
    inner.add(shop.number.call(1))
    flow = Workflow("outer")
    flow.add(inner)
    for n in range(5):
        flow.add(shop.number.call(n))
    handle = flow.enqueue()
    shop.run()
    prune = "select pruned from prune_jobs('completed', %s, %s)"
    connection.execute("update jobs set finished_at = finished_at - interval '1 hour' where id <> %s", [handle.id])
    assert connection.execute(prune, [timedelta(minutes=1), 100]).fetchone() == (0,)  # its jobs are kept for it
    connection.execute("update jobs set finished_at = finished_at - interval '2 hours'")
    assert connection.execute(prune, [timedelta(minutes=1), 4]).fetchone() == (4,)
    assert handle.status() == Status.COMPLETED
    connection.execute(prune, [timedelta(minutes=1), 100])
    for table in ("jobs", "dependencies", "workflows", "member_changes"):
        assert connection.execute(f"select count(*) from {table}").fetchone() == (0,), table


def test_the_jobs_of_a_deleted_workflow_are_on_their_own(shop: Shop, connection: psycopg.Connection[Any]) -> None:
    flow = Workflow()
    flow.add(shop.number.call(1))
    flow.add(shop.number.using(delay="1h").call(1))
    handle = flow.enqueue()
    connection.execute("delete from jobs where id = %s", [handle.id])
    shop.run()
    connection.execute("update jobs set finished_at = finished_at - interval '2 hours'")
    prune = "select pruned from prune_jobs('completed', %s, %s)"
    assert connection.execute(prune, [timedelta(minutes=1), 100]).fetchone() == (1,)
    for table in ("dependencies", "workflows", "member_changes"):
        assert connection.execute(f"select count(*) from {table}").fetchone() == (0,), table
